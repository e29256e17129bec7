"""Which commit changed a count: ``iotoll bisect``, ``bisect-step`` and ``ledger`` (docs/bisect.md).

``history`` asks git, ``meter`` builds and boots one commit, ``log`` remembers it, ``find`` and
``account`` divide a range, and ``culprit`` confirms what was found.
"""
