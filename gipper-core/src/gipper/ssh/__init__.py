"""SSH: connections, the control shell, bulk channels, and the `Remote` over them."""
