"""What an NVIDIA driver says and does, each test on the fake driver library and, where there is a GPU, on the real one.

``make gpu`` runs both; without a GPU those of the real driver are skipped, with the reason.
"""
