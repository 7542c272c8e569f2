"""Operations: the functions of wheelfit without a command line.

Each operation is a function from a frozen request and a context to a frozen report. It reads no
arguments, prints nothing and takes environment variables from its context.
"""
