"""Pure domain: no I/O, no client library, no clock."""
