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

/// Puts a module in evaluation mode, and back when it ends.
class EvaluationMode {
 public:
  explicit EvaluationMode(torch::nn::Module& module);
  explicit EvaluationMode(torch::jit::Module& module);
  ~EvaluationMode();
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  std::vector<std::function<void()>> put_back_;  // from the outermost module in
};

}  // namespace detail

/// Evaluates all `batches`, each whole on the next replica that is free, so that none waits for another: good where
/// batches take different times. In evaluation mode and without gradients; the module's modes are as before at the end.
///
///     const auto hits = lockstep::parallel_evaluate(dp, loader, [](auto& model, const auto& batch) {
///       return model->forward(batch).argmax(1).eq(batch.at("labels")).sum();
///     });
///
/// @param batches   a DataLoader, or any range of batches. Read by one replica at a time
/// @param function  called with a replica and a batch, in several threads at once; for a replica on a CUDA device it
/// moves the batch there (`replica` alone is there)
/// @return  the results in the order of the batches
/// @throws what reading a batch or a replica threw, with the replica's number and device
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
