"""An expansion of the offsets topic: more partitions, without an offset lost (KIP-895).

``facts`` is what is asked for and what is looked at, ``load`` what the log adds up to, ``rules`` what stands
against it, ``plan`` the steps and what undoes them. ``steps``, ``brokers`` and ``offsets`` are how each is
done, over ``ports`` (what they know of the plan) and ``restore`` (offsets given back and read back).
``report`` is what people read, ``move`` what the engine asks of all this. ``repair`` brings back what an
expansion without this tool lost.
"""
