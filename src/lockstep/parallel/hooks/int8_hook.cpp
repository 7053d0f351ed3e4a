// The communication hook int8: a quarter of fp32's bytes.
#include <ATen/ops/empty.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/parallel/communication_hook.h"
#include "lockstep/parallel/hooks/int8_blocks.h"

namespace lockstep {
namespace {

// Two ranks send each other everything. With more ranks, each part is sent to its owner, which sends the sum to all: 2
// (n - 1) / n times the bytes in place of n - 1 times.
class Int8Hook : public CommunicationHook {
 public:
  std::shared_ptr<Work> start(GradBucket& bucket, Communicator& communicator) override {
    Exchange& exchange = prepare(bucket, communicator.world_size());
    if (guard_.begins_after_void_step(bucket)) {
      exchange.error.zero_();
      exchange.owner_error.zero_();
    }
    const at::Tensor numbers = padded(bucket.buffer, exchange.error.numel());
    const auto part_numel = static_cast<std::size_t>(exchange.part_numel);
    for (std::int64_t part = 0; part < exchange.parts; ++part) {
      const std::int64_t first = part * exchange.part_numel;
      to_int8(numbers.data_ptr<float>() + first, exchange.error.data_ptr<float>() + first, part_numel,
              exchange.sent.data_ptr<std::uint8_t>() + part * exchange.part_bytes);
    }
    if (exchange.parts == 1) return communicator.all_gather_async(exchange.received, exchange.sent);
    return communicator.all_to_all_async(exchange.received, exchange.sent);
  }

  std::shared_ptr<Work> start_second(GradBucket& bucket, Communicator& communicator) override {
    Exchange& exchange = exchanges_.at(bucket.index);
    if (exchange.parts == 1) return nullptr;
    sum_of_all(exchange, communicator.world_size(), exchange.sum.data_ptr<float>());
    to_int8(exchange.sum.data_ptr<float>(), exchange.owner_error.data_ptr<float>(),
            static_cast<std::size_t>(exchange.part_numel), exchange.sent_sum.data_ptr<std::uint8_t>());
    return communicator.all_gather_async(exchange.received, exchange.sent_sum);
  }

  void finish(GradBucket& bucket, Communicator& communicator) override {
    const Exchange& exchange = exchanges_.at(bucket.index);
    bool is_void = !all_received_is_finite(exchange, communicator.world_size());
    put(bucket.buffer, [&](float* result) {
      if (exchange.parts == 1) return sum_of_all(exchange, communicator.world_size(), result);
      for (std::int64_t part = 0; part < exchange.parts; ++part) {
        const std::int64_t first = part * exchange.part_numel;
        const std::int64_t wanted = std::min(exchange.part_numel, bucket.buffer.numel() - first);
        if (wanted <= 0) return;
        // The padding at the end has no place in the buffer.
        float* const place = wanted == exchange.part_numel ? result + first : exchange.sum.data_ptr<float>();
        sum_int8({part_of(exchange, part)}, static_cast<std::size_t>(exchange.part_numel), 1, place);
        if (place != result + first) std::copy_n(place, wanted, result + first);
      }
    });
    // fp16 has a smaller range than the received numbers.
    const bool is_narrow = bucket.buffer.scalar_type() != at::kFloat;
    is_void = is_void || (is_narrow && !at::isfinite(bucket.buffer).all().item<bool>());
    if (is_void) guard_.set_void(bucket);
  }

  HookState state() const override {
    HookState state;
    for (const auto& [index, exchange] : exchanges_) {
      const auto kept = [&](const at::Tensor& each) { return guard_.is_void() ? at::zeros_like(each) : each.clone(); };
      state.emplace_back(key_of(index, "error"), kept(exchange.error));
      state.emplace_back(key_of(index, "owner_error"), kept(exchange.owner_error));
    }
    return state;
  }
  void load_state(const HookState& state) override {
    exchanges_.clear();
    guard_ = {};
    loaded_ = state;
  }

 private:
  struct Exchange {
    std::int64_t parts = 0;  // 1 for two ranks, else one per rank
    std::int64_t part_numel = 0;
    std::int64_t part_bytes = 0;
    at::Tensor error;                     // loss so far, sent with the next numbers [parts * part_numel]
    at::Tensor owner_error;               // loss of this rank's part of the sum [part_numel]
    at::Tensor sum;                       // averaged over all ranks, for this rank's part [part_numel]
    at::Tensor sent, sent_sum, received;  // uint8
  };

  Exchange& prepare(const GradBucket& bucket, int world_size) {
    Exchange& exchange = exchanges_[bucket.index];
    if (exchange.error.defined()) return exchange;
    exchange.parts = world_size <= 2 ? 1 : world_size;
    exchange.part_numel = (bucket.buffer.numel() + exchange.parts - 1) / exchange.parts;
    exchange.part_bytes = static_cast<std::int64_t>(int8_bytes(static_cast<std::size_t>(exchange.part_numel)));
    exchange.error = at::zeros({exchange.parts * exchange.part_numel}, at::kFloat);
    const bool two_rounds = exchange.parts > 1;
    exchange.owner_error = at::zeros({two_rounds ? exchange.part_numel : 0}, at::kFloat);
    exchange.sum = at::empty({two_rounds ? exchange.part_numel : 0}, at::kFloat);
    exchange.sent_sum = at::empty({two_rounds ? exchange.part_bytes : 0}, at::kByte);
    exchange.sent = at::empty({exchange.parts * exchange.part_bytes}, at::kByte);
    exchange.received = at::empty({world_size * exchange.part_bytes}, at::kByte);
    take_loaded(exchange.error, key_of(bucket.index, "error"));
    take_loaded(exchange.owner_error, key_of(bucket.index, "owner_error"));
    return exchange;
  }

  static std::string key_of(std::size_t bucket, const char* name) { return fmt::format("{}.{}", bucket, name); }

  void take_loaded(at::Tensor& target, const std::string& name) {
    if (loaded_.empty()) return;
    const at::Tensor saved = take_out(loaded_, name);
    if (!saved.defined() || saved.numel() != target.numel()) {
      refuse_hook_state("int8", fmt::format("{} has {} numbers here but {} in the state", name, target.numel(),
                                            saved.defined() ? saved.numel() : 0));
    }
    target.copy_(saved);
  }

  static bool all_received_is_finite(const Exchange& exchange, int world_size) {
    const auto count = static_cast<std::size_t>(exchange.part_numel);
    for (int rank = 0; rank < world_size; ++rank) {
      if (!int8_is_finite(part_of(exchange, rank), count)) return false;
    }
    return true;
  }

  // `buffer` as fp32 on the CPU, whose kernels read and write the bytes, padded with zeros to `numel`.
  static at::Tensor padded(const at::Tensor& buffer, std::int64_t numel) {
    if (buffer.numel() == numel) return buffer.to(at::kCPU, at::kFloat).contiguous();
    at::Tensor numbers = at::zeros({numel}, at::kFloat);
    numbers.narrow(0, 0, buffer.numel()).copy_(buffer);
    return numbers;
  }

  static const std::uint8_t* part_of(const Exchange& exchange, std::int64_t rank) {
    return exchange.received.data_ptr<std::uint8_t>() + rank * exchange.part_bytes;
  }

  // Computes the average of one part from what the ranks sent.
  static void sum_of_all(const Exchange& exchange, int world_size, float* sum) {
    const float factor = 1.0F / static_cast<float>(world_size);
    std::vector<const std::uint8_t*> parts;
    for (int rank = 0; rank < world_size; ++rank) parts.push_back(part_of(exchange, rank));
    sum_int8(parts, static_cast<std::size_t>(exchange.part_numel), factor, sum);
  }

  // Lets `write` fill the buffer, through fp32 memory of the host if the buffer has another dtype or is on a device.
  template <typename Write>
  static void put(at::Tensor& buffer, const Write& write) {
    const bool is_direct = buffer.device().is_cpu() && buffer.scalar_type() == at::kFloat && buffer.is_contiguous();
    if (is_direct) return write(buffer.data_ptr<float>());
    const at::Tensor numbers = at::empty({buffer.numel()}, at::kFloat);
    write(numbers.data_ptr<float>());
    buffer.copy_(numbers);
  }

  std::map<std::size_t, Exchange> exchanges_;  // by bucket
  ResidualGuard guard_;
  HookState loaded_;  // for buckets that were not used yet
};

}  // namespace

std::unique_ptr<CommunicationHook> int8_compress_hook() { return std::make_unique<Int8Hook>(); }

}  // namespace lockstep
