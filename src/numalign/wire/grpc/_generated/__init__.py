"""Messages and services of gRPC neighbours, made by ``make proto`` from the files beside it."""
