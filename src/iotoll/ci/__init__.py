"""``iotoll ci``: the jobs of a GitLab pipeline, each a command that also runs at a desk.

A pipeline's state is one folder that its jobs hand on as artifacts::

    iotoll/plan.json  boards.yml  summary.json  note.md
    iotoll/virtual/BOARD/   run directory of a virtual board
    iotoll/lava/BOARD/      run directory of a board in a LAVA lab
    iotoll/report/          what people and GitLab read

Who may do what is in docs/threat-model.md.
"""
