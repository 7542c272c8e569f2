"""What gives the right variant to installers that know no variants: an index in front of others.

May import the floors below the servers, and the seam of the servers.
"""
