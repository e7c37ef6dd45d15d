"""Messages of NRI and ttrpc, made by ``make proto`` from the files beside it."""
