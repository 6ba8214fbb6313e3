"""The two programs of the oracle that run inside sandboxes: the verifier's, which holds the tests, and the candidate's.

Pure standard library and nothing of Quintain: `quintain.grade.bundle` joins these modules into one file for each side.
"""
