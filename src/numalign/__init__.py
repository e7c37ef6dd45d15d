"""Places work on NUMA machines exactly as the Kubernetes node managers do."""

__all__ = ["__version__"]

__version__ = "0.1.0"
