"""An index in front of others that serves the right variant to installers without variants.

May import the layers below the servers, and the seam of the servers.
"""
