"""The gate on the clock `time`: pairs of boots until a decision is reached (docs/method.md).

``boundaries`` computes how sure each look must be, ``variance`` how noisy each figure is,
``signflip`` the exact test that confirms a regression, and ``sequential`` decides with them. Those
four know numbers and a policy alone; `iotoll simulate` and the gate of real boots call the same
functions.
"""
