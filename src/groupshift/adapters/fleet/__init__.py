"""Fleet drivers: how members are replaced."""
