#include "lockstep/parallel/functional.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/parallel/sibling_group.h"

namespace lockstep::functional {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;
using Group = std::shared_ptr<Communicator>;

// A graph keeps its group.
struct KeptGroup : torch::CustomClassHolder {
  explicit KeptGroup(Group kept) : group(std::move(kept)) {}
  Group group;
};

void keep(AutogradContext* context, const Group& group) {
  context->saved_data["group"] = c10::IValue::make_capsule(c10::make_intrusive<KeptGroup>(group));
}

Group kept_in(AutogradContext* context) {
  return c10::static_intrusive_pointer_cast<KeptGroup>(context->saved_data["group"].toCapsule())->group;
}

std::vector<std::int64_t> sizes_with_rows(const at::Tensor& tensor, std::int64_t rows) {
  std::vector<std::int64_t> sizes = tensor.sizes().vec();
  sizes[0] = rows;
  return sizes;
}

// The number of rows on each rank.
std::vector<std::int64_t> rows_of_all(Communicator& group, const at::Tensor& in) {
  const auto numbers = at::TensorOptions().dtype(at::kLong).device(in.device());
  at::Tensor all = at::empty({group.world_size()}, numbers);
  group.all_gather(all, at::full({1}, in.size(0), numbers));
  all = all.cpu();
  const auto* rows = all.data_ptr<std::int64_t>();
  return {rows, rows + group.world_size()};
}

at::Tensor padded(const at::Tensor& rows, std::int64_t count) {
  if (rows.size(0) == count) return rows;
  return at::cat({rows, at::zeros(sizes_with_rows(rows, count - rows.size(0)), rows.options())});
}

at::Tensor sum_of_parts(const Group& group, const at::Tensor& parts, const std::vector<std::int64_t>& rows);

// The parts of all ranks one after the other, from parts of equal length.
class AllGather : public Function<AllGather> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& in, const Group& group,
                            const std::vector<std::int64_t>& rows) {
    keep(context, group);
    context->saved_data["rows"] = rows;
    const std::int64_t longest = *std::max_element(rows.begin(), rows.end());
    const at::Tensor all = at::empty(sizes_with_rows(in, longest * group->world_size()), in.options());
    group->all_gather(all, padded(in, longest).contiguous());
    std::vector<at::Tensor> parts;
    for (std::size_t rank = 0; rank < rows.size(); ++rank) {
      parts.push_back(all.narrow(0, static_cast<std::int64_t>(rank) * longest, rows[rank]));
    }
    return at::cat(parts);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const std::vector<std::int64_t> rows = context->saved_data["rows"].toIntVector();
    return {sum_of_parts(kept_in(context), gradients[0], rows), {}, {}};
  }
};

at::Tensor gathered(const Group& group, const at::Tensor& in, const std::vector<std::int64_t>& rows) {
  return AllGather::apply(in, group, rows);
}

// The sum over ranks of this rank's part; the reverse of AllGather.
class SumOfParts : public Function<SumOfParts> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& all, const Group& group,
                            const std::vector<std::int64_t>& rows) {
    keep(context, group);
    context->saved_data["rows"] = rows;
    const std::int64_t longest = *std::max_element(rows.begin(), rows.end());
    std::vector<at::Tensor> parts;
    std::int64_t begin = 0;
    for (const std::int64_t count : rows) {
      parts.push_back(padded(all.narrow(0, begin, count), longest));
      begin += count;
    }
    const at::Tensor sum = at::empty(sizes_with_rows(all, longest), all.options());
    group->reduce_scatter(sum, at::cat(parts), ReduceOp::Sum);
    const std::int64_t own = rows[static_cast<std::size_t>(group->rank())];
    return own == longest ? sum : sum.narrow(0, 0, own).clone();
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const std::vector<std::int64_t> rows = context->saved_data["rows"].toIntVector();
    return {gathered(kept_in(context), gradients[0], rows), {}, {}};
  }
};

at::Tensor sum_of_parts(const Group& group, const at::Tensor& parts, const std::vector<std::int64_t>& rows) {
  return SumOfParts::apply(parts, group, rows);
}

class AllReduce : public Function<AllReduce> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& in, const Group& group) {
    keep(context, group);
    const at::Tensor sum = in.clone(at::MemoryFormat::Contiguous);
    group->all_reduce(sum, ReduceOp::Sum);
    return sum;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {AllReduce::apply(gradients[0], kept_in(context)), {}};
  }
};

at::Tensor sum_at(const Group& group, const at::Tensor& in, int root);

class Broadcast : public Function<Broadcast> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& in, const Group& group, int root) {
    keep(context, group);
    context->saved_data["root"] = static_cast<std::int64_t>(root);
    const at::Tensor out = in.clone(at::MemoryFormat::Contiguous);
    group->broadcast(out, root);
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto root = static_cast<int>(context->saved_data["root"].toInt());
    return {sum_at(kept_in(context), gradients[0], root), {}, {}};
  }
};

// The sum on rank `root`, zeros on the others; the reverse of Broadcast.
class SumAt : public Function<SumAt> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& in, const Group& group, int root) {
    keep(context, group);
    context->saved_data["root"] = static_cast<std::int64_t>(root);
    const at::Tensor sum = in.clone(at::MemoryFormat::Contiguous);
    group->reduce(sum, root, ReduceOp::Sum);
    return group->rank() == root ? sum : at::zeros_like(sum);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto root = static_cast<int>(context->saved_data["root"].toInt());
    return {Broadcast::apply(gradients[0], kept_in(context), root), {}, {}};
  }
};

at::Tensor sum_at(const Group& group, const at::Tensor& in, int root) { return SumAt::apply(in, group, root); }

// The factor that makes of a sum what `op` asks for.
double factor_of(ReduceOp op, const Communicator& group, const char* call) {
  if (op == ReduceOp::Sum) return 1;
  if (op == ReduceOp::Avg) return 1.0 / group.world_size();
  throw Error(fmt::format("{} has no derivative by this operation", call), "lockstep::functional",
              "take ReduceOp::Sum or ReduceOp::Avg");
}

at::Tensor scaled(const at::Tensor& sum, double factor) { return factor == 1 ? sum : sum * factor; }

void require_rows(const at::Tensor& in, const char* call) {
  if (in.dim() > 0) return;
  throw Error(fmt::format("{} needs a tensor with at least one dimension", call), "lockstep::functional",
              "give at least one dimension: tensor.unsqueeze(0)");
}

}  // namespace

at::Tensor all_gather(const Group& group, const at::Tensor& in) {
  require_rows(in, "all_gather");
  const Group messages = sibling_group(group);
  return gathered(messages, in, rows_of_all(*messages, in));
}

at::Tensor reduce_scatter(const Group& group, const at::Tensor& in, ReduceOp op) {
  require_rows(in, "reduce_scatter");
  const double factor = factor_of(op, *group, "reduce_scatter");
  if (in.size(0) % group->world_size() != 0) {
    throw Error(fmt::format("reduce_scatter cannot divide {} rows among {} ranks", in.size(0), group->world_size()),
                "lockstep::functional", "give a multiple of the number of ranks");
  }
  const std::vector<std::int64_t> rows(static_cast<std::size_t>(group->world_size()), in.size(0) / group->world_size());
  return scaled(sum_of_parts(sibling_group(group), in, rows), factor);
}

at::Tensor all_reduce(const Group& group, const at::Tensor& in, ReduceOp op) {
  const double factor = factor_of(op, *group, "all_reduce");
  return scaled(AllReduce::apply(in, sibling_group(group)), factor);
}

at::Tensor broadcast(const Group& group, const at::Tensor& in, int root) {
  return Broadcast::apply(in, sibling_group(group), root);
}

}  // namespace lockstep::functional
