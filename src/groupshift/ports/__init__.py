"""What the use cases need from the outside world: Protocols whose docstrings are the contract."""
