"""Where in a range of commits a value changed: on an exact clock and on a noisy one.

``graph`` divides a range as git does, ``ledger`` accounts for all of its changes, and ``bayes``
searches where each boot only tells something. All of them know commits and numbers alone: what
builds and boots is `iotoll.run.bisect`.
"""
