#!/usr/bin/env python3
"""Shows that the tests that need GPUs can fail: puts faults of the code for CUDA devices in again, each of which a user
with GPUs would have met.

    python3 tests/fake_gpu/mutants.py SOURCE BUILD [--only PATTERN] [--list] [--check] [--limit SECONDS]

BUILD has engine nccl, and its target gpu_tests is built (scripts/test-gpu). For each mutant a file is changed, compiled,
and linked with the test program that must notice it, which runs on fake devices (README.md beside this file). Exits with
1 if nothing notices a mutant. --check compiles nothing.
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from mutant_build import Look, Mutant, look_for, one_object, parse_flags, with_header  # noqa: E402

COMM = "src/lockstep/comm/"
NCCL = COMM + "nccl/"
REPLICAS = "src/lockstep/replicas/"
UPDATE = "src/lockstep/optim/update/"
TRAIN = "src/lockstep/train/loop/"

# (what is wrong then, file, what stands there, what stands there instead, program, tests that must notice it)
OF_MESSAGES = [
    ("messages of two tags wait for each other", NCCL + "nccl.cpp", "bool separates_tags() const override { return true; }",
     "bool separates_tags() const override { return false; }", "gpu_comm_test", "*CudaRanks.SendAndReceive*/2"),
    ("each message may have a tag of its own", NCCL + "nccl_pairs.cpp", "tags.size() < kMostTags", "true",
     "gpu_comm_test",
     "*CudaFailures.RefuseTooManyTags*"),
    ("streams of messages are those of LibTorch's pool", NCCL + "nccl_stream.cpp", "NcclStream::NcclStream() : stream_(own_stream()) {}",
     "NcclStream::NcclStream() : stream_(c10::cuda::getStreamFromPool(true)) {}", "gpu_comm_test",
     "*CudaFailures.HaveAStreamForEachPair*"),
]

OF_FAILURES = [
    ("communicators are aborted one after the other", NCCL + "nccl_ending.cpp",
     "    ncclGroupStart();\n"
     "    for (const NcclWorkplace& place : workplaces_) {\n"
     "      if (ncclComm_t const communicator = place.handle->give_up()) ncclCommAbort(communicator);\n"
     "    }\n"
     "    ncclGroupEnd();\n",
     "    for (const NcclWorkplace& place : workplaces_) {\n"
     "      if (ncclComm_t const communicator = place.handle->give_up()) ncclCommAbort(communicator);\n"
     "    }\n",
     "gpu_comm_test", "*CudaFailures.HaveTheirDevice*"),
    ("an error is thrown while the abort still runs", NCCL + "nccl.cpp",
     "    connections_->break_connections();\n    supervisor_->raise(error);\n", "    supervisor_->raise(error);\n",
     "gpu_comm_test", "CudaImitated.AnErrorIsThrownWhen*"),
    ("an operation that was aborted counts as done", NCCL + "nccl_connections.cpp",
     "  if (breaking_) throw NcclAborted();  // the device", "  // the device", "gpu_comm_test",
     "CudaImitated.AnOperationThatAnAbort*"),
    ("a rank whose abort hangs waits for ever", NCCL + "nccl_ending.cpp",
     "if (!ending->wait_for(limit)) leave_lost_device", "if (!ending->wait_for(1000 * limit)) leave_lost_device",
     "gpu_comm_test", "CudaImitated.ARankEndsIf*"),
    ("an error of NCCL on this rank blames the others", NCCL + "nccl.cpp",
     "error.peer_is_lost() ? others() : std::vector<int>()", "others()", "gpu_comm_test", "CudaImitated.ASystemError*"),
    ("an error of the system is a lost rank", NCCL + "nccl_handle.h", "return result_ == ncclRemoteError;",
     "return result_ != ncclInvalidUsage;", "gpu_comm_test", "CudaImitated.ASystemError*",
     with_header([NCCL + "nccl.cpp", NCCL + "nccl_handle.cpp"])),
    ("NCCL's words are not passed on", NCCL + "nccl.cpp", '"NCCL failed: " + std::string(error.what())',
     'std::string("NCCL failed: ")', "gpu_comm_test", "CudaImitated.ASystemError*"),
    ("nobody names the option of a container with a small /dev/shm", COMM + "failure/nccl_advice.cpp",
     'if (has("/dev/shm") || has("shared memory")) {', "if (false) {", "gpu_comm_test", "CudaImitated.ASystemError*"),
    ("nobody compares what the ranks take part in", NCCL + "nccl_marks.cpp",
     "    if (marks[rank] != sent_.data_ptr<std::int64_t>()[0]) ranks.push_back(rank);\n", "    (void)marks;\n",
     "gpu_comm_test",
     "*CudaFailures.NameTheRankThatDisagrees*"),
    ("what ranks take part in is exchanged by a kernel of its own", NCCL + "nccl_call.cpp",
     "    return marks_.begin_with(communicator, stream_, [&] { return body(communicator); });\n",
     "    return body(communicator);\n", "gpu_comm_test", "CudaImitated.AnOperationIsOneKernel*"),
    ("operations are queued into a graph that is being captured", NCCL + "nccl.cpp",
     "override { refuse_capture(to_string(kind), membership(), device_); }", "override { static_cast<void>(kind); }",
     "gpu_comm_test", "*CudaFailures.AreRefused*"),
]

OF_THREADS = [
    ("a thread that waits for a collective makes a context on the first device", NCCL + "nccl.cpp",
     "      const c10::cuda::CUDAGuard device(device_);  // a thread begins", "      // a thread begins",
     "gpu_comm_test",
     "*CudaFailures.MakeContexts*"),
    ("two threads make an engine for devices each", COMM + "communicator/communicator_devices.cpp",
     "  const std::lock_guard<std::mutex> making(state_->making_companion);\n", "", "gpu_comm_test",
     "*CudaFailures.MayBeNeededByTwoThreads*"),
    ("two threads call NCCL at the same time", NCCL + "nccl_handle.cpp",
     "  const std::lock_guard<std::mutex> one_call(calls_);\n", "",
     "gpu_comm_test", "*CudaFailures.TakeCallsOfTwoThreads*"),
    ("a replica's backward on the first device waits for itself", REPLICAS + "replication/graph_devices.cpp",
     "    if (takes_gradient_on(*node, device)) return true;\n", "", "gpu_parallel_test",
     "*CudaReplicas.MayComputeOnTheFirstDevice/2"),
]

OF_REPLICAS = [
    ("replicas on devices keep the weights of their first step", REPLICAS + "replication/replica_state.cpp",
     "weight_writes_.begin(trains || may_be_updated());", "weight_writes_.begin(false);", "gpu_parallel_test",
     "*CudaReplicas.EqualOneProcess*"),
    ("writes between two forwards for inference are not seen", REPLICAS + "replication/replica_state.cpp",
     "weight_writes_.begin(trains || may_be_updated());", "weight_writes_.begin(trains);", "gpu_parallel_test",
     "*CudaReplicas.InferWithTheWeights*"),
    ("gradients on devices are added by other threads, on their streams", REPLICAS + "gradient_sum.cpp",
     "return !sum.device.is_cpu(); })) {", "return !sum.device.is_cpu() && false; })) {", "gpu_parallel_test",
     "*CudaReplicas.FollowTheCallersStreams*"),
    ("replicas run on their threads' own streams", REPLICAS + "replica_threads.cpp",
     "      const DeviceAndStream stream(streams[replica]);\n", "", "gpu_parallel_test",
     "*CudaReplicas.FollowTheCallersStreams*"),
    ("the first device holds all gradients of all replicas", REPLICAS + "device_sum.cpp",
     "constexpr std::int64_t kPieceBytes = std::int64_t{16} << 20;",
     "constexpr std::int64_t kPieceBytes = std::int64_t{16} << 40;", "gpu_parallel_test", "CudaCosts.ASumOfGradients*"),
]

OF_UPDATES = [
    ("clipping waits for each gradient", UPDATE + "tensor_norms.cpp",
     "const bool is_joined = tensor.layout() == at::kStrided && at::isFloatingType(tensor.scalar_type());",
     "const bool is_joined = false;", "gpu_parallel_test", "CudaCosts.ClippingWaitsOnce*"),
    ("a gradient scaler waits for each gradient", UPDATE + "tensor_norms.cpp",
     "const bool is_joined = tensor.layout() == at::kStrided && at::isFloatingType(tensor.scalar_type());",
     "const bool is_joined = false;", "gpu_parallel_test", "CudaCosts.AGradScaler*"),
    ("a backward adds to gradients that zero_grad has left", UPDATE + "dropped_gradients.cpp",
     "  gradient.reset();\n", "  gradient.zero_();\n", "gpu_parallel_test", "CudaCosts.ABackwardAfterZeroGrad*"),
    ("a step without a backward updates nothing on devices", UPDATE + "dropped_gradients.cpp",
     "  dropped_.insert(parameter.unsafeGetTensorImpl());\n", "",
     "gpu_parallel_test", "CudaCosts.AStepWithoutABackward*"),
    ("each parameter has kernels of its own in an update", UPDATE + "local_update.cpp",
     "          slot.parameter.device().str(),\n",
     "          slot.parameter.device().str() + std::to_string(slot.parameter.numel()),\n", "gpu_parallel_test",
     "CudaCosts.AnUpdateHas*"),
]

OF_TRAININGS = [
    ("the only rank of a launcher takes all devices", TRAIN + "gradient_engine.cpp",
     "device.is_cuda() && device.index() == 0 && !is_rank", "device.is_cuda() && device.index() == 0", "gpu_train_test",
     "*CudaTrainer*TrainsAsOnTheCpu*:CudaTrainerAlone.TakesAllDevices*"),
    ("a training without a launcher takes one device", TRAIN + "gradient_engine.cpp",
     "device.is_cuda() && device.index() == 0 && !is_rank", "false", "gpu_train_test",
     "CudaTrainerAlone.TakesAllDevices*"),
    ("the generators of the other replicas' devices are not saved", TRAIN + "training_checkpoints.cpp",
     "    if (i != device.index()) indices.push_back(i);\n", "",
     "gpu_train_test", "CudaTrainerAlone.SavesTheGenerators*"),
    ("generators of all devices have the state of the first", "src/lockstep/checkpoint/state/generators.cpp",
     "at::globalContext().defaultGenerator(device), is_first);",
     "at::globalContext().defaultGenerator(c10::Device(c10::kCUDA, 0)), is_first);", "gpu_train_test",
     "CudaGenerators.OfAllDevices*"),
]

OF_THE_LAUNCHER = [
    ("the driver is not asked for devices that are not in /dev", "src/lockstep/launch/ranks/device_count.cpp",
     '  if (installed == 0) installed = gpus_by_driver("libnvidia-ml.so.1");\n', "", "launch_test", "DeviceCount.IsAsked*"),
]


def on_fake_devices(build):
    """Variables as those of with_fake_gpus, with the devices of the largest test."""
    folder = build.resolve() / "fake_gpu"
    names = [sorted(folder.glob(pattern)) for pattern in ("libcudart.so*", "libcuda.so.1", "libnccl.so*")]
    return {"LD_PRELOAD": " ".join(str(path) for paths in names for path in paths), "FAKE_GPU_DEVICES": "8",
            "FAKE_GPU_SEED": "37", "FAKE_GPU_PAUSE_US": "200", "CUDA_VISIBLE_DEVICES": None}


def mutants(build):
    rows = (OF_MESSAGES + OF_FAILURES + OF_THREADS + OF_REPLICAS + OF_UPDATES + OF_TRAININGS + OF_THE_LAUNCHER)
    for what, file, old, new, program, tests, *objects in rows:
        yield Mutant(what, file, old, new, [Look(
            program, ["--gtest_filter=" + tests, "--gtest_fail_fast"], *(objects or [one_object]),
            variables=None if program == "launch_test" else on_fake_devices(build))])


if __name__ == "__main__":
    flags = parse_flags(__doc__, limit_s=120)
    sys.exit(look_for(flags, list(mutants(flags.build))))
