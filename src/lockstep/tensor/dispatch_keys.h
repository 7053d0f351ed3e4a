// The dispatch keys of LibTorch by which Lockstep's calls come before operations. No other file names one, so a
// LibTorch that takes one of them away is answered here.
#pragma once

#include <c10/core/DispatchKey.h>

namespace c10 {
class OperatorHandle;
}
namespace torch {
class CppFunction;
}

namespace lockstep {

/// Threads that compute for a replica have it: their operations that draw random numbers take the replica's generator.
/// LibTorch gives it no meaning, and nothing else uses it.
constexpr c10::DispatchKey kReplicaKey = c10::DispatchKey::TESTING_ONLY_GenericMode;

/// Tensors whose reads are watched have it. LibTorch has it above autograd, gives it no meaning of its own, and
/// registers nothing for it: "a generic testing tensor type". Keys of autocast, functorch and Python belong to their
/// features, and keys of other devices would make these tensors no CPU tensors.
constexpr c10::DispatchKey kWatchedKey = c10::DispatchKey::TESTING_ONLY_GenericWrapper;

/// Tensors whose writes are watched have it. LibTorch has it above autograd, and registers nothing for it: TorchDistX,
/// which does, is no longer made.
constexpr c10::DispatchKey kWriteKey = c10::DispatchKey::DeferredInit;

/// Makes a function that LibTorch can call: `[] { return torch::CppFunction::makeFromBoxedFunction<&call>(); }`.
using MakeFunction = torch::CppFunction (*)();

/// From now on, LibTorch calls a function of `make` in place of each operation with `key`. Once for a key is enough.
void call_before_operations(c10::DispatchKey key, MakeFunction make);

/// The same for the operations of aten that `is_meant` says; all others pass.
void call_before_operations(c10::DispatchKey key, MakeFunction make, bool (*is_meant)(const c10::OperatorHandle&));

}  // namespace lockstep
