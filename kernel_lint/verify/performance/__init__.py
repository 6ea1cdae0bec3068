"""The performance stage: how long the candidate takes, beside the reference and the hardware's limit.

The candidate's and the reference's processes are asked for blocks of samples in turn, forwards and
backwards (A B B A), on the same device; :mod:`schedule` says who is next, :mod:`clocks` takes a sample
(in the process that runs it), :mod:`validity` says which times nobody may believe, :mod:`statistics`
compares, and :mod:`roofline` puts the result under what the hardware could do.
"""
