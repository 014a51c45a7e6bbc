"""The composition root: settings become ports; nothing else chooses an implementation."""
