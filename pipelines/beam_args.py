"""What Beam is told where a pipeline runs on one machine."""

# One worker in this process: for small data the start of others costs more than they bring
# (84 s against 280 s for TFX's penguin example). The runner is named because Beam's
# DirectRunner first tries to download Prism. The container image is not used by this
# runner; without it TFX builds a source distribution of itself in each Beam node (2-4 s).
LOCAL_BEAM_ARGS = [
    "--runner=FnApiRunner",
    "--direct_running_mode=in_memory",
    "--sdk_container_image=unused",
]
