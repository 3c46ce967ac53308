"""The scene of a run: the marks of its nodes and links step by step, as data, from the journal and the plan.

Report, thumbnail, animation, comparison and the page of a watched run draw the same scene.
"""
