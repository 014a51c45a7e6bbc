"""A downgrade of brokers: to an older release, or to the old group coordinator (KIP-848, KIP-915).

``facts`` is what is asked for and what is looked at, ``releases`` the older release and the path to it,
``rules`` what stands against it, ``plan`` the steps and what undoes them, ``steps`` how each is done,
``report`` what people read, ``move`` what the engine asks of all this. Tables beside them: ``rules.toml`` and
``steps.toml`` (sentences), ``metadata_levels.toml`` (levels of metadata.version), ``property_names.toml``
(properties of brokers' files).
"""
