#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <utility>

#include "lockstep/comm/factory.h"
#include "lockstep/train/accelerator.h"

namespace lockstep {

/// Rows that contain their number, with data and target as in torch::data's own datasets.
class NumberedRows : public torch::data::datasets::Dataset<NumberedRows> {
 public:
  explicit NumberedRows(std::int64_t count) : count_(count) {}
  torch::data::Example<> get(std::size_t index) override {
    const auto number = static_cast<double>(index);
    return {torch::full({1}, number / 10, torch::kDouble), torch::full({1}, number, torch::kDouble)};
  }
  decltype(std::declval<const torch::data::datasets::TensorDataset&>().size()) size() const override {
    return static_cast<std::size_t>(count_);
  }

 private:
  std::int64_t count_;
};

inline auto stacked_rows(std::int64_t count) { return NumberedRows(count).map(torch::data::transforms::Stack<>()); }

inline torch::data::DataLoaderOptions torch_options(std::int64_t batch_size, std::size_t workers = 0,
                                                    bool drop_last = false) {
  return torch::data::DataLoaderOptions(static_cast<std::size_t>(batch_size)).workers(workers).drop_last(drop_last);
}

inline AcceleratorOptions options_on(const char* engine, const Membership& membership) {
  AcceleratorOptions options;
  options.ddp.process_group = make_communicator(engine, membership);
  return options;
}

}  // namespace lockstep
