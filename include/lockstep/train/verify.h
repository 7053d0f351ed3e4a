#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/data/batch.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/replicas/replicate.h"
#include "lockstep/tensor/loss_sum.h"

namespace lockstep {

struct VerifyOptions {
  int ranks = 2;               ///< replicas to compare with one, as threads of this process
  double tolerance = 1e-5;     ///< largest difference that passes; in double 1e-12 serves
  double learning_rate = 0.1;  ///< of the updates, which are plain gradient descent
  std::string engine;          ///< that connects the ranks; empty: the fastest there is
};

/// How far a parameter of N ranks is from that of one process.
struct VerifiedTensor {
  std::string name;
  std::string shape;     ///< "[5, 128]"
  double gradient = 0;   ///< largest difference of any element in the last gradient, relative to the tensor's largest
                         ///< element, or to a thousandth of the model's largest if that is more
  double parameter = 0;  ///< the same of the updated parameter
};

struct Verification {
  std::vector<VerifiedTensor> tensors;
  double gradient = 0;  ///< the largest of all tensors
  double parameter = 0;
  double tolerance = 0;

  bool is_equal() const { return gradient <= tolerance && parameter <= tolerance; }
  /// A table of all tensors, and the verdict in its last line.
  std::string text() const;
};

namespace detail {

/// One replica for `verify`: its tensors, which are its own, and the loss of a part of a batch.
struct VerifiedReplica {
  ModuleTensors tensors;
  std::function<LossSum(const Batch& part)> loss;
};
/// Makes a rank's replica, on the rank's thread. @param group  the rank's
using MakeVerifiedReplica = std::function<VerifiedReplica(const std::shared_ptr<Communicator>& group)>;

Verification verify_replicas(const MakeVerifiedReplica& make, const std::vector<Batch>& batches,
                             const VerifyOptions& options);
/// Gives the parameters and buffers memory of their own.
void own_memory(const ModuleTensors& tensors);

/// A mean over the rows of `part`, or a sum and what it counts.
LossSum loss_sum_of(const at::Tensor& mean, const Batch& part);
inline LossSum loss_sum_of(LossSum loss, const Batch& /*part*/) { return loss; }

}  // namespace detail

/// Shows that `options.ranks` ranks with DistributedDataParallel compute what one process with the whole batch does:
/// the gradients of each batch, and the weights after an update with each.
///
///     auto result = lockstep::verify(model, batch, [](auto& net, const lockstep::Batch& part) {
///       return torch::nn::functional::cross_entropy(net(part.at("images")), part.at("labels"));
///     });
///     std::cout << result.text();
///
/// The module stays as it is: copies of it compute, in evaluation mode, because dropout draws random numbers and batch
/// norm mixes the samples of its batch, so that a part of a batch is another function than the whole.
///
/// @param module  a module holder (TORCH_MODULE), a shared_ptr to a module that can be cloned, or torch::jit::Module
/// @param batches  tensors with one row for each sample; each rank gets its share of the rows
/// @param loss  called with `DistributedDataParallel<ModuleType>&` and a part of a batch. It returns the mean over the
/// part's rows as a tensor; or, if it leaves rows or tokens out, a LossSum
/// @throws Error  if a batch has fewer rows than there are ranks or tensors of different lengths, or the module cannot
/// be cloned
template <typename ModuleType, typename Loss>
Verification verify(ModuleType module, const std::vector<Batch>& batches, Loss loss,
                    const VerifyOptions& options = {}) {
  std::mutex copying;  // ranks are threads, and a copy reads the one module
  const auto copy = [&] {
    const std::lock_guard<std::mutex> lock(copying);
    ModuleType replica = detail::make_replica_like(module, "cpu:0");
    detail::own_memory(module_tensors(detail::plain_module(replica)));
    return replica;
  };
  const auto make = [&](const std::shared_ptr<Communicator>& group) {
    ModuleType replica = copy();
    detail::plain_module(replica).eval();
    DistributedDataParallelOptions wrapping;
    wrapping.process_group = group;
    auto ddp = std::make_shared<DistributedDataParallel<ModuleType>>(replica, wrapping);
    return detail::VerifiedReplica{module_tensors(detail::plain_module(ddp->module())), [ddp, loss](const Batch& part) {
                                     return detail::loss_sum_of(loss(*ddp, part), part);
                                   }};
  };
  return detail::verify_replicas(make, batches, options);
}

template <typename ModuleType, typename Loss>
Verification verify(ModuleType module, const Batch& batch, Loss loss, const VerifyOptions& options = {}) {
  return verify(std::move(module), std::vector<Batch>{batch}, std::move(loss), options);
}

}  // namespace lockstep
