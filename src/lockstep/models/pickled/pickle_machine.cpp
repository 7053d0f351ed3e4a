#include "lockstep/models/pickled/pickle_machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>
#include <unordered_map>

#include "lockstep/base/error.h"
#include "lockstep/base/text/affixes.h"
#include "lockstep/base/text/printable.h"

namespace lockstep {
namespace {

constexpr int kMostDepth = 32;

using Sequence = std::shared_ptr<PickleSequence>;
using Dict = std::shared_ptr<PickleDict>;
using Values = std::vector<PickleValue>;

// https://github.com/python/cpython/blob/main/Lib/pickletools.py describes them.
enum Opcode : unsigned char {
  kMark = '(',
  kStop = '.',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kNone = 'N',
  kBinPersId = 'Q',
  kReduce = 'R',
  kBinUnicode = 'X',
  kAppend = 'a',
  kBuild = 'b',
  kGlobal = 'c',
  kAppends = 'e',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kTuple = 't',
  kSetItems = 'u',
  kBinFloat = 'G',
  kEmptyTuple = ')',
  kEmptyList = ']',
  kEmptyDict = '}',
  kProto = 0x80,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
};

class PickleMachine {
 public:
  PickleMachine(std::string_view bytes, std::size_t begin, const std::string& path)
      : bytes_(bytes), at_(begin), path_(path) {}

  PickleValue run() {
    for (;;) {
      opcode_at_ = at_;
      const auto opcode = static_cast<unsigned char>(take(1)[0]);
      if (opcode == kStop) return pop();
      if (!push_plain(opcode) && !handle_container(opcode) && !handle_memo(opcode) && !handle_object(opcode)) {
        refuse(fmt::format("the pickle has the opcode 0x{:02x}", opcode));
      }
    }
  }
  std::size_t end() const { return at_; }

 private:
  [[noreturn]] void refuse(const std::string& problem) const {
    throw Error(
        problem + ", which weights do not need; nothing of the file was run",
        fmt::format("{}, byte {} of the pickle", path_, opcode_at_),
        "take a file that torch.save(model.state_dict(), path) wrote; convert others in Python if you trust them");
  }
  void require(bool holds, const char* problem) const {
    if (!holds) refuse(problem);
  }

  std::string_view take(std::size_t count) {
    if (count > bytes_.size() - at_) {
      throw Error("the pickle ends too early", fmt::format("{}, byte {} of the pickle", path_, opcode_at_),
                  "copy or download the file again");
    }
    const std::string_view taken = bytes_.substr(at_, count);
    at_ += count;
    return taken;
  }
  template <typename Number>
  Number take_number() {
    Number number;
    std::memcpy(&number, take(sizeof(number)).data(), sizeof(number));
    return number;
  }
  std::string take_line() {
    const std::size_t end = bytes_.find('\n', at_);
    if (end == std::string_view::npos) take(bytes_.size() - at_ + 1);
    const std::string line(take(end - at_));
    take(1);
    return line;
  }

  void push(PickleValue value) { stack_.push_back(std::move(value)); }
  PickleValue pop() {
    require(!stack_.empty() && (marks_.empty() || stack_.size() > marks_.back()), "the pickle takes what is not there");
    PickleValue value = std::move(stack_.back());
    stack_.pop_back();
    return value;
  }
  Values pop_to_mark() {
    require(!marks_.empty(), "the pickle takes what is not there");
    Values values(std::make_move_iterator(stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back())),
                  std::make_move_iterator(stack_.end()));
    stack_.resize(marks_.back());
    marks_.pop_back();
    return values;
  }
  // A chain of containers ends in a chain of destructors.
  void put_inside(PickleContainer& outer, const PickleValue& item) const {
    PickleContainer* inner = nullptr;
    if (const Sequence* sequence = item.as<Sequence>()) inner = sequence->get();
    if (const Dict* dict = item.as<Dict>()) inner = dict->get();
    if (inner == nullptr) return;
    inner->is_inside = true;
    require(!outer.is_inside, "the pickle adds to what is already part of something");
    outer.depth = std::max(outer.depth, inner->depth + 1);
    require(outer.depth <= kMostDepth, "the pickle is nested deeply");
  }
  void push_sequence(Values items) {
    const auto sequence = std::make_shared<PickleSequence>();
    for (const PickleValue& item : items) put_inside(*sequence, item);
    sequence->items = std::move(items);
    push({sequence});
  }
  void push_last(std::size_t count) {
    Values items(count);
    for (std::size_t i = count; i > 0; --i) items[i - 1] = pop();
    push_sequence(std::move(items));
  }

  bool push_plain(unsigned char opcode) {
    switch (opcode) {
      case kProto:
        take(1);
        return true;
      case kNone:
        push({});
        return true;
      case kNewTrue:
      case kNewFalse:
        push({opcode == kNewTrue});
        return true;
      case kBinInt:
        push({std::int64_t{take_number<std::int32_t>()}});
        return true;
      case kBinInt1:
        push({std::int64_t{take_number<std::uint8_t>()}});
        return true;
      case kBinInt2:
        push({std::int64_t{take_number<std::uint16_t>()}});
        return true;
      case kLong1:
        push_long();
        return true;
      case kBinFloat:
        take(8);
        push({0.0});  // no weight depends on it
        return true;
      case kBinUnicode:
        push({std::string(take(take_number<std::uint32_t>()))});
        return true;
      default:
        return false;
    }
  }
  void push_long() {
    const std::string_view digits = take(take_number<std::uint8_t>());
    // PyTorch's magic number is longer than 8 bytes; nothing else that is needed is.
    std::int64_t number = !digits.empty() && static_cast<signed char>(digits.back()) < 0 ? -1 : 0;
    std::memcpy(&number, digits.data(), std::min(digits.size(), sizeof(number)));
    push({number});
  }

  bool handle_container(unsigned char opcode) {
    switch (opcode) {
      case kMark:
        marks_.push_back(stack_.size());
        return true;
      case kEmptyTuple:
      case kEmptyList:
        push_sequence({});
        return true;
      case kEmptyDict:
        push({std::make_shared<PickleDict>()});
        return true;
      case kTuple:
        push_sequence(pop_to_mark());
        return true;
      case kTuple1:
      case kTuple2:
      case kTuple3:
        push_last(opcode - kTuple1 + 1U);
        return true;
      case kAppend:
      case kAppends:
        append(opcode == kAppends ? pop_to_mark() : Values{pop()});
        return true;
      case kSetItem: {
        PickleValue value = pop();
        set_items({pop(), std::move(value)});
        return true;
      }
      case kSetItems:
        set_items(pop_to_mark());
        return true;
      default:
        return false;
    }
  }
  PickleValue& top() {
    require(!stack_.empty(), "the pickle takes what is not there");
    return stack_.back();
  }
  void append(Values items) {
    const Sequence* list = top().as<Sequence>();
    require(list != nullptr, "the pickle appends to what is not a list");
    for (PickleValue& item : items) {
      put_inside(**list, item);
      (*list)->items.push_back(std::move(item));
    }
  }
  void set_items(Values items) {
    const Dict* dict = top().as<Dict>();
    require(dict != nullptr && items.size() % 2 == 0, "the pickle sets items of what is not a dictionary");
    for (std::size_t i = 0; i < items.size(); i += 2) {
      put_inside(**dict, items[i]);
      put_inside(**dict, items[i + 1]);
      (*dict)->items.emplace_back(std::move(items[i]), std::move(items[i + 1]));
    }
  }

  bool handle_memo(unsigned char opcode) {
    switch (opcode) {
      case kBinPut:
        memo_[take_number<std::uint8_t>()] = top();
        return true;
      case kLongBinPut:
        memo_[take_number<std::uint32_t>()] = top();
        return true;
      case kBinGet:
        push_memo(take_number<std::uint8_t>());
        return true;
      case kLongBinGet:
        push_memo(take_number<std::uint32_t>());
        return true;
      default:
        return false;
    }
  }
  void push_memo(std::uint32_t number) {
    const auto found = memo_.find(number);
    require(found != memo_.end(), "the pickle takes what is not there");
    push(found->second);
  }

  bool handle_object(unsigned char opcode) {
    switch (opcode) {
      case kGlobal:
        push_global();
        return true;
      case kBinPersId:
        push_storage(pop());
        return true;
      case kReduce: {
        const PickleValue arguments = pop();
        call(pop(), arguments);
        return true;
      }
      case kBuild:  // attributes of an OrderedDict, as state_dict's "_metadata"
        pop();
        require(top().as<Dict>() != nullptr, "the pickle sets attributes");
        return true;
      default:
        return false;
    }
  }
  void push_global() {
    const std::string module = take_line();
    const std::string name = module + "." + take_line();
    const bool is_storage = module == "torch" && ends_with(name, "Storage");
    const bool is_known = is_storage || name == kOrderedDict || name == kRebuildTensor || name == kRebuildParameter;
    if (!is_known) refuse("the pickle names " + printable(name));
    push({PickleGlobal{name}});
  }
  // ("storage", torch.FloatStorage, key, location, elements), and in old files a view, which is None.
  void push_storage(const PickleValue& id) {
    const Sequence* parts = id.as<Sequence>();
    require(parts != nullptr && (*parts)->items.size() >= 5, "the pickle has an unknown persistent id");
    const Values& items = (*parts)->items;
    const auto* kind = items[0].as<std::string>();
    const auto* type = items[1].as<PickleGlobal>();
    const auto* key = items[2].as<std::string>();
    const auto* elements = items[4].as<std::int64_t>();
    require(kind != nullptr && *kind == "storage" && type != nullptr && key != nullptr && elements != nullptr,
            "the pickle has an unknown persistent id");
    require(items.size() == 5 || items[5].as<std::monostate>() != nullptr, "the pickle has a view of a storage");
    push({PickledStorage{type->name.substr(type->name.rfind('.') + 1), *key, *elements}});
  }
  void call(const PickleValue& function, const PickleValue& arguments) {
    const auto* name = function.as<PickleGlobal>();
    const Sequence* given = arguments.as<Sequence>();
    require(name != nullptr && given != nullptr, "the pickle calls something");
    if (name->name == kOrderedDict && (*given)->items.empty()) return push({std::make_shared<PickleDict>()});
    if (name->name == kRebuildTensor) return push_tensor((*given)->items);
    if (name->name == kRebuildParameter && !(*given)->items.empty()) return push((*given)->items.front());
    refuse("the pickle calls " + printable(name->name));
  }
  std::vector<std::int64_t> numbers(const PickleValue& value) const {
    const Sequence* list = value.as<Sequence>();
    require(list != nullptr, "the pickle has a tensor without sizes");
    std::vector<std::int64_t> all;
    for (const PickleValue& item : (*list)->items) {
      const auto* number = item.as<std::int64_t>();
      require(number != nullptr, "the pickle has a tensor without sizes");
      all.push_back(*number);
    }
    return all;
  }
  // (storage, offset, sizes, strides, requires_grad, hooks, ...)
  void push_tensor(const Values& arguments) {
    require(arguments.size() >= 4, "the pickle has a tensor without sizes");
    const auto* storage = arguments[0].as<PickledStorage>();
    const auto* offset = arguments[1].as<std::int64_t>();
    require(storage != nullptr && offset != nullptr, "the pickle has a tensor without a storage");
    push({std::make_shared<const PickledTensor>(
        PickledTensor{*storage, *offset, numbers(arguments[2]), numbers(arguments[3])})});
  }

  static constexpr const char* kOrderedDict = "collections.OrderedDict";
  static constexpr const char* kRebuildTensor = "torch._utils._rebuild_tensor_v2";
  static constexpr const char* kRebuildParameter = "torch._utils._rebuild_parameter";

  std::string_view bytes_;
  std::size_t at_;
  const std::string& path_;
  std::size_t opcode_at_ = 0;
  Values stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint32_t, PickleValue> memo_;
};

}  // namespace

PickleValue read_pickle(std::string_view bytes, std::size_t& begin, const std::string& path) {
  PickleMachine machine(bytes, begin, path);
  PickleValue value = machine.run();
  begin = machine.end();
  return value;
}

}  // namespace lockstep
