"""Mutated inputs for every parser: none may raise what is not ours, hang, or fill the memory."""
