#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/comm/communicator.h"

namespace lockstep {

/// A module that this process has wrapped. Ranks wrap modules in the same order, so all of them have the same number
/// for it: two modules of one shape send messages of one shape, and only the number shows which one a rank means.
class WrappedModule {
 public:
  /// Counts the module as the next one of the group. @param parameters  all of them, also those that are not averaged
  WrappedModule(const std::shared_ptr<Communicator>& group, std::vector<std::pair<std::string, at::Tensor>> parameters);
  ~WrappedModule();
  WrappedModule(const WrappedModule&) = delete;
  WrappedModule& operator=(const WrappedModule&) = delete;

  /// 1, 2, ... in the order in which the group's modules were wrapped.
  int number() const { return number_; }
  /// Whether a parameter is one of a wrapped module's. Thread-safe, because ranks may be threads.
  static bool has(const at::Tensor& parameter);

 private:
  int number_;
  std::vector<std::pair<std::string, at::Tensor>> parameters_;
};

/// "module 2 (as the group's modules were wrapped)"
std::string text_of_module(int number);

/// Copies `root`'s buffers of a module to every rank. On the CPU it also compares, in the same message, which module
/// the ranks mean. Collective.
/// @throws Error  if this rank gets another module's buffers; the group then ends
void broadcast_buffers(Communicator& communicator, std::vector<at::Tensor> buffers, int root, int module);

/// Names the modules that the ranks mean, if a number of each has shown that they mean different ones. Collective.
[[noreturn]] void throw_different_modules(Communicator& communicator, int module);

}  // namespace lockstep
