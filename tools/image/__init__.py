"""Makes the container image without a container engine: ``python -m tools.image``."""
