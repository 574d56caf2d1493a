"""Run batch jobs on rented GPUs, and prove that every machine was given back."""

__version__ = "0.1.0"
