#include "lockstep/parallel/backward/static_graph.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/parallel/end_group.h"

namespace lockstep {

void StaticGraph::begin() { std::fill(has_gradient_.begin(), has_gradient_.end(), false); }

void StaticGraph::gradient_arrived(std::size_t parameter) {
  if (!expected_[parameter]) {
    end_group(
        *communicator_,
        fmt::format("static_graph is set, but parameter \"{}\" got a gradient that it did not get in the first step",
                    buckets_.name(parameter)),
        "leave static_graph off where the graph changes between steps");
  }
  has_gradient_[parameter] = true;
}

void StaticGraph::end() {
  if (state_ == State::Promised) {
    expected_ = has_gradient_;
    state_ = State::Known;
  }
  for (std::size_t i = 0; is_known() && i < expected_.size(); ++i) {
    if (!expected_[i] || has_gradient_[i]) continue;
    end_group(*communicator_,
              fmt::format("static_graph is set, but parameter \"{}\" got no gradient, which it got in the first step",
                          buckets_.name(i)),
              "leave static_graph off where the graph changes between steps");
  }
}

}  // namespace lockstep
