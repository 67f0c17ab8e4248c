import pytest
import tensorflow as tf
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from penstock.components.trainer.utilisation.trace import idle_share, idle_share_of


def space(**planes):
    """An XSpace of lines by plane and name; a line's events are name, begin and end in ps."""
    made = xplane_pb2.XSpace()
    for name, lines in planes.items():
        plane = made.planes.add(name=name.replace("_", "/device:GPU:"))
        for line_name, events in lines.items():
            line = plane.lines.add(name=line_name, timestamp_ns=1_700_000_000_000_000_000)
            for event, begin, end in events:
                number = len(plane.event_metadata) + 1
                plane.event_metadata[number].name = event
                line.events.add(metadata_id=number, offset_ps=begin, duration_ps=end - begin)
    return made


# The names are those of a trace of TensorFlow's profiler on V100s.
GPU = {
    "Stream #134(Compute)": [("ampere_sgemm_32x32", 100, 200), ("EigenMetaKernel", 400, 500)],
    "Stream #135(MemcpyH2D)": [("MemcpyH2D", 0, 400)],
    "Stream #136(Compute)": [("fusion_2", 150, 250), ("fusion_2", 160, 170)],
    "TensorFlow Ops": [("model/dense/MatMul:MatMul", 0, 900)],
    "Steps": [("0", 0, 900)],
}


def test_what_no_kernel_fills_between_the_first_and_the_last_is_idle():
    # 150 of the 400 from 100 to 500: the streams overlap, copies and derived lines do not count.
    assert idle_share(space(_0=GPU)) == pytest.approx(0.375)
    busy = {"Stream #7(Compute)": [("a", 0, 5), ("b", 5, 10)]}
    assert idle_share(space(_0=busy)) == 0.0
    assert idle_share(space(_0=GPU, _1=busy, _2={})) == pytest.approx(0.1875)


def test_without_kernels_there_is_no_share():
    only_copies = {"Stream #135(MemcpyH2D)": [("MemcpyH2D", 0, 400), ("Memset", 400, 500)]}
    assert idle_share(space(host=GPU, _0=only_copies)) is None


def test_a_profile_is_left_for_tensorboard(tmp_path):
    done = []
    share = idle_share_of(lambda: done.append(tf.reduce_sum(tf.ones([8])).numpy()), str(tmp_path))
    assert (share, done) == (None, [8.0])
    (profile,) = tmp_path.glob("plugins/profile/*/*.xplane.pb")
    assert profile.stat().st_size > 0
