"""indigo: insertion-based sequence generation."""

__version__ = "0.1.0"
