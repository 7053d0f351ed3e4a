#pragma once

#include <ATen/core/grad_mode.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/replicas/data_parallel.h"

namespace lockstep {
namespace detail {

/// Sets a module to evaluation mode while it lives, and restores the modes at its end.
class EvaluationMode {
 public:
  explicit EvaluationMode(torch::nn::Module& module);
  explicit EvaluationMode(torch::jit::Module& module);
  ~EvaluationMode();
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  std::vector<std::function<void()>> put_back_;  // from the outermost module inwards
};

}  // namespace detail

/// Evaluates all `batches`, each as a whole on the next free replica. No replica waits for another, which helps if
/// batches take different times. Runs in evaluation mode and without gradients; the module's modes are restored at the
/// end.
///
///     const auto hits = lockstep::parallel_evaluate(dp, loader, [](auto& model, const auto& batch) {
///       return model->forward(batch).argmax(1).eq(batch_field(batch, "labels")).sum();
///     });
///
/// @param batches   a DataLoader, or any range of batches. Read by one replica at a time
/// @param function  called with a replica and a batch, in several threads at once. For a replica on a CUDA device it
/// must move the batch there: only the replica is on the device
/// @return  the results in the order of the batches
/// @throws the exception of reading a batch or of a replica, with the replica's number and device
template <typename ModuleType, typename Batches, typename Function>
auto parallel_evaluate(DataParallel<ModuleType>& dp, Batches&& batches, Function&& function) {
  auto position = batches.begin();
  const auto end = batches.end();
  using Result = std::decay_t<decltype(function(dp.module(), *position))>;
  std::vector<std::optional<Result>> results;
  std::mutex mutex;
  bool is_failed = false;
  const detail::EvaluationMode evaluation(detail::plain_module(dp.module()));
  const at::NoGradGuard no_grad;
  dp.replicas().set().run_all([&](std::size_t replica) {
    try {
      while (true) {
        std::unique_lock<std::mutex> lock(mutex);
        if (is_failed || !(position != end)) return;
        auto batch = *position;
        const std::size_t index = results.size();
        results.emplace_back();
        ++position;
        lock.unlock();
        Result result = function(dp.replicas()[replica], batch);
        lock.lock();
        results[index].emplace(std::move(result));
      }
    } catch (...) {
      const std::lock_guard<std::mutex> lock(mutex);
      is_failed = true;
      throw;
    }
  });
  std::vector<Result> values;
  for (auto& result : results) values.push_back(std::move(*result));
  return values;
}

}  // namespace lockstep
