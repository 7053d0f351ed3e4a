#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/comm/communicator.h"

namespace lockstep {

/// This process's place in its job: Accelerate's class with this name. It is a base of Accelerator, which joins the
/// job's group.
class PartialState {
 public:
  int process_index() const { return group_->rank(); }
  int local_process_index() const { return group_->membership().self().local_rank; }
  int num_processes() const { return group_->world_size(); }
  bool is_main_process() const { return process_index() == 0; }
  bool is_local_main_process() const { return local_process_index() == 0; }
  bool is_last_process() const { return process_index() == num_processes() - 1; }
  Communicator& process_group() { return *group_; }
  c10::Device device() const { return device_; }  ///< this rank's device: a CUDA device if it has one, else the CPU

  /// Waits until all processes have called this. Collective.
  void wait_for_everyone() { group_->barrier(); }
  /// Runs `body` on the main process first, then on the others. They wait as long as the main process lives. If `body`
  /// throws there, all processes throw, and the others name that process. Collective.
  void main_process_first(const std::function<void()>& body) { one_first(is_main_process(), body); }
  /// Runs `body` on each host's first process before the others. Collective.
  void local_main_process_first(const std::function<void()>& body) { one_first(is_local_main_process(), body); }

  /// This rank's part of `inputs`. Parts are as even as possible; lower ranks get one more. `apply_padding` repeats the
  /// last element for ranks that have one less. Not collective.
  template <typename T>
  std::vector<T> split_between_processes(const std::vector<T>& inputs, bool apply_padding = false) const {
    const auto [begin, end] = share_of(static_cast<std::int64_t>(inputs.size()), process_index());
    std::vector<T> part(inputs.begin() + begin, inputs.begin() + end);
    const auto [first, most] = share_of(static_cast<std::int64_t>(inputs.size()), 0);
    while (apply_padding && !inputs.empty() && static_cast<std::int64_t>(part.size()) < most - first) {
      part.push_back(inputs.back());
    }
    return part;
  }
  at::Tensor split_between_processes(const at::Tensor& input, bool apply_padding = false) const;
  /// Splits each value of a map at the same places. @throws Error  if their lengths differ
  template <typename Values>
  std::map<std::string, Values> split_between_processes(const std::map<std::string, Values>& inputs,
                                                        bool apply_padding = false) const {
    std::map<std::string, Values> parts;
    for (const auto& [name, values] : inputs) {
      require_same_length(inputs.begin()->first, length_of(inputs.begin()->second), name, length_of(values));
      parts.emplace(name, split_between_processes(values, apply_padding));
    }
    return parts;
  }

  /// Writes one line, on the first rank of each host.
  void print(const std::string& line) const;

 protected:
  PartialState() = default;
  ~PartialState() = default;
  PartialState(PartialState&&) noexcept = default;
  PartialState& operator=(PartialState&&) noexcept = default;

  void join(std::shared_ptr<Communicator> group, c10::Device device);
  void leave() { group_.reset(); }
  const std::shared_ptr<Communicator>& group() const { return group_; }

 private:
  void one_first(bool is_first, const std::function<void()>& body);
  std::pair<std::int64_t, std::int64_t> share_of(std::int64_t count, int rank) const;
  static std::int64_t length_of(const at::Tensor& values) { return values.size(0); }
  template <typename T>
  static std::int64_t length_of(const std::vector<T>& values) {
    return static_cast<std::int64_t>(values.size());
  }
  static void require_same_length(const std::string& first, std::int64_t length, const std::string& other,
                                  std::int64_t other_length);

  std::shared_ptr<Communicator> group_;
  c10::Device device_{c10::kCPU};
};

}  // namespace lockstep
