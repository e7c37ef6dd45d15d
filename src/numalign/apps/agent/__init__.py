"""The node agent: admits pods, runs and pins them, repairs drift, survives crashes.

``step`` is pure: events in, the next state and effects out. ``driver`` carries effects out and
feeds results back as events. The simulation test drives the very same ``step``.
"""
