"""Test rigs and validation of iotoll: experiments, simulated boards, a LAVA on this machine."""
