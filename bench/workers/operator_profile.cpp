#include "bench/workers/operator_profile.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "lockstep/base/seconds_since.h"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

/// The sizes of a product's two operands and how they lie in memory: all on which its time depends.
struct Operands {
  std::vector<std::int64_t> sizes[2];
  std::vector<std::int64_t> strides[2];
  at::ScalarType type = at::kFloat;

  Operands(const at::Tensor& a, const at::Tensor& b) : type(a.scalar_type()) {
    const at::Tensor* const both[] = {&a, &b};
    for (int i = 0; i < 2; ++i) {
      sizes[i] = both[i]->sizes().vec();
      strides[i] = both[i]->strides().vec();
    }
  }
  bool is_batch() const { return sizes[0].size() == 3; }
  std::int64_t rows() const { return sizes[0].end()[-2]; }
  std::int64_t inner() const { return sizes[0].back(); }
  std::int64_t columns() const { return sizes[1].back(); }
  std::string size_text() const {
    const std::string one = fmt::format("{}x{}x{}", rows(), inner(), columns());
    return is_batch() ? fmt::format("{} of {}", sizes[0][0], one) : one;
  }
  double operations() const {
    const std::int64_t matrices = is_batch() ? sizes[0][0] : 1;
    return 2.0 * static_cast<double>(matrices * rows()) * static_cast<double>(inner() * columns());
  }
  bool operator<(const Operands& other) const {
    return std::tie(sizes[0], sizes[1], strides[0], strides[1], type) <
           std::tie(other.sizes[0], other.sizes[1], other.strides[0], other.strides[1], other.type);
  }
  /// The shortest of several runs on the same operands, without anything else in between.
  double alone_s() const {
    constexpr int kRuns = 7;
    const at::NoGradGuard no_grad;
    const auto make = [this](int i) { return at::empty_strided(sizes[i], strides[i], at::dtype(type)).fill_(0.5); };
    const at::Tensor a = make(0), b = make(1);
    at::Tensor out = is_batch() ? at::bmm(a, b) : at::mm(a, b);
    double best_s = 1e9;
    for (int run = 0; run < kRuns; ++run) {
      const Clock::time_point begin = Clock::now();
      is_batch() ? at::bmm_out(out, a, b) : at::mm_out(out, a, b);
      best_s = std::min(best_s, seconds_since(begin));
    }
    return best_s;
  }
};

/// The operands of an operator that is a product; nothing for others.
std::optional<Operands> operands_of(const at::RecordFunction& function) {
  static const std::map<std::string, std::size_t> first_operand = {{"aten::mm", 0},     {"aten::bmm", 0},
                                                                   {"aten::addmm", 1},  {"aten::baddbmm", 1},
                                                                   {"aten::addmm_", 1}, {"aten::baddbmm_", 1}};
  const auto found = first_operand.find(function.name());
  if (found == first_operand.end()) return std::nullopt;
  const auto inputs = function.inputs();
  const std::size_t at = found->second;
  if (inputs.size() < at + 2 || !inputs[at].isTensor() || !inputs[at + 1].isTensor()) return std::nullopt;
  return Operands(inputs[at].toTensor(), inputs[at + 1].toTensor());
}

// "lockstep::(anonymous namespace)::DenseFunction" of a node's C++ type.
std::string readable_name(const at::RecordFunction& function) {
  std::string name = function.name();
  if (!name.empty() && name.back() == '>') name.pop_back();
  const std::size_t last = name.rfind("::");
  if (function.scope() != at::RecordScope::BACKWARD_FUNCTION) return name;
  return "backward: " + (last == std::string::npos ? name : name.substr(last + 2));
}

struct Mark : at::ObserverContext {};  // its base alone cannot be made

struct Times {
  std::int64_t calls = 0;
  double s = 0;
  void add(double more_s) {
    ++calls;
    s += more_s;
  }
};

}  // namespace

class OperatorProfile::Recorder {
 public:
  Recorder() : thread_(std::this_thread::get_id()) {
    current() = this;
    handle_ = at::addGlobalCallback(at::RecordFunctionCallback(&begin, &end)
                                        .needsInputs(true)
                                        .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
  }
  ~Recorder() { stop(); }
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  void stop() {
    if (current() != this) return;
    at::removeCallback(handle_);
    current() = nullptr;
  }
  const std::map<Operands, Times>& products() const { return products_; }
  const std::map<std::string, Times>& others() const { return others_; }

 private:
  /// An operator that runs.
  struct Frame {
    Clock::time_point began;
    std::optional<Operands> product;
    std::string name;
    double inner_s = 0;  // of the operators that it calls
  };

  static Recorder*& current() {
    static Recorder* recorder = nullptr;
    return recorder;
  }
  bool is_mine() const { return std::this_thread::get_id() == thread_; }

  static std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function) {
    Recorder* const recorder = current();
    if (recorder == nullptr || !recorder->is_mine()) return nullptr;
    recorder->frames_.push_back({Clock::now(), operands_of(function), readable_name(function), 0});
    return std::make_unique<Mark>();
  }

  // What a product calls is part of it.
  static void end(const at::RecordFunction&, at::ObserverContext* context) {
    Recorder* const recorder = current();
    if (context == nullptr || recorder == nullptr || !recorder->is_mine()) return;
    std::vector<Frame>& frames = recorder->frames_;
    const Frame frame = std::move(frames.back());
    frames.pop_back();
    const double took_s = seconds_since(frame.began);
    if (!frames.empty()) frames.back().inner_s += took_s;
    const bool is_inside = std::any_of(frames.begin(), frames.end(), [](const Frame& f) { return !!f.product; });
    if (is_inside) return;
    if (frame.product) {
      recorder->products_[*frame.product].add(took_s);
    } else {
      recorder->others_[frame.name].add(took_s - frame.inner_s);
    }
  }

  std::thread::id thread_;
  at::CallbackHandle handle_ = 0;
  std::vector<Frame> frames_;
  std::map<Operands, Times> products_;
  std::map<std::string, Times> others_;
};

OperatorProfile::OperatorProfile() : recorder_(std::make_unique<Recorder>()) {}
OperatorProfile::~OperatorProfile() = default;
void OperatorProfile::stop() { recorder_->stop(); }

Json OperatorProfile::report(int steps, double step_ms) const {
  const auto of_step = [steps](double all) { return all / steps; };
  const auto longest_first = [](const Json& a, const Json& b) { return a["ms"] > b["ms"]; };
  double products_ms = 0, alone_ms = 0, gflop = 0, others_ms = 0;
  std::vector<Json> products, others;
  for (const auto& [operands, times] : recorder_->products()) {
    const double calls = of_step(static_cast<double>(times.calls));
    products.push_back({{"size", operands.size_text()},
                        {"calls", calls},
                        {"ms", 1e3 * of_step(times.s)},
                        {"alone_ms", 1e3 * calls * operands.alone_s()},
                        {"gflop", calls * operands.operations() / 1e9}});
    products_ms += products.back()["ms"].get<double>();
    alone_ms += products.back()["alone_ms"].get<double>();
    gflop += products.back()["gflop"].get<double>();
  }
  for (const auto& [name, times] : recorder_->others()) {
    others.push_back(
        {{"name", name}, {"calls", of_step(static_cast<double>(times.calls))}, {"ms", 1e3 * of_step(times.s)}});
    others_ms += others.back()["ms"].get<double>();
  }
  std::sort(products.begin(), products.end(), longest_first);
  std::sort(others.begin(), others.end(), longest_first);
  others.push_back({{"name", "outside of operators"}, {"calls", 0}, {"ms", step_ms - products_ms - others_ms}});
  return {{"step_ms", step_ms}, {"products_ms", products_ms}, {"alone_ms", alone_ms},
          {"gflop", gflop},     {"products", products},       {"others", others}};
}

}  // namespace lockstep
