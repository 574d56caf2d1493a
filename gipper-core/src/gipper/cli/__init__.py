"""The `gipper` command: thin commands over the library, one module per subject, imported when used."""
