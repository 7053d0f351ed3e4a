#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <functional>

namespace fake_gpu {

/// An operation as a kernel does it: false if it was aborted.
using KernelBody = std::function<bool()>;

/// Takes an operation of one communicator: launches it, or keeps it for the group that is open in this thread. Messages
/// of a group run beside each other, and collectives one after the other.
ncclResult_t submit(ncclComm* communicator, cudaStream_t stream, bool is_message, KernelBody body);
/// Connects a communicator, or keeps that for the group that is open.
ncclResult_t submit_join(ncclComm* communicator);
/// Ends an aborted communicator, or keeps that for the group that is open: within one, each communicator's flag is set
/// before anything is freed.
void submit_abort(ncclComm* communicator);

}  // namespace fake_gpu
