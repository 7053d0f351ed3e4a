#include "lockstep/parallel/update/update_clipping.h"

#include <cstdint>

#include "lockstep/base/random/mix_bits.h"
#include "lockstep/parallel/update/update_lists.h"

namespace lockstep {

UpdateRequest UpdateClipping::request_norm(const std::vector<at::Tensor>& parameters, const ClipOptions& options) {
  UpdateRequest request;
  request.kind = UpdateRequest::Kind::Norm;
  request.clip = options;
  select(request, parameters);
  return request;
}

UpdateRequest UpdateClipping::request_scaling(const std::vector<at::Tensor>& parameters, double factor) {
  UpdateRequest request;
  request.kind = UpdateRequest::Kind::Scale;
  request.factor = factor;
  select(request, parameters);
  return request;
}

void UpdateClipping::select(UpdateRequest& request, const std::vector<at::Tensor>& parameters) {
  selection_.clear();
  in_order_ = indices_of(context_, parameters);
  for (const std::size_t index : in_order_) selection_.add(index);
  request.parameters = in_order_;
  request.selection = selection_.number();
  if (context_.norm->depends_on_order()) {
    for (const std::size_t index : in_order_) mix_into(request.selection, index);
  }
}

double UpdateClipping::norm() {
  const double p = context_.agreement.request().clip.norm_type;
  const double norm = context_.norm->of(selection_, in_order_, p);
  context_.memory->finish({});
  return p < 0 && !selection_.any_of(context_.agreement.contributed()) ? -1 : norm;
}

void UpdateClipping::scale() {
  const double factor = context_.agreement.request().factor;
  for (std::size_t b = 0; b < context_.buckets.size(); ++b) {
    const FusedBucket& bucket = context_.buckets[b];
    for (std::size_t i = 0; i < bucket.parameters.size(); ++i) {
      const std::int64_t begin = bucket.offsets[i];
      const std::int64_t end = begin + context_.gradients.parameter(bucket.parameters[i]).numel();
      for (int times = selection_.count(bucket.parameters[i]); times > 0; --times) {
        if (context_.pass->scales_gradients()) context_.own_gradients->scale(b, begin, end, factor);
        context_.memory->follow_scaling(b, begin, end, factor);
      }
    }
  }
  context_.watch->take_gradients();
}

}  // namespace lockstep
