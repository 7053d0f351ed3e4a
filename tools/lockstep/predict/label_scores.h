#pragma once

#include <ATen/core/Tensor.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace lockstep {

/// The score of each label, by its name. If two labels share a name, a list of {"label", "score"} in the order of the
/// labels' numbers, as Hugging Face's pipelines print them: an object would keep one of the two.
inline nlohmann::ordered_json label_scores(const std::vector<std::string>& labels, const at::Tensor& scores) {
  auto by_name = nlohmann::ordered_json::object();
  auto in_order = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const double score = scores[static_cast<std::int64_t>(i)].item<double>();
    by_name[labels[i]] = score;
    in_order.push_back({{"label", labels[i]}, {"score", score}});
  }
  return by_name.size() == labels.size() ? by_name : in_order;
}

}  // namespace lockstep
