"""Choose versions, then the best wheel of each; explain the choice.

May import ``sources``, ``wheels``, ``core`` and below.
"""
