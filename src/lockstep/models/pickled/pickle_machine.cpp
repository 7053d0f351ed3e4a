#include "lockstep/models/pickled/pickle_machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>
#include <unordered_map>

#include "lockstep/models/pickled/pickle_bytes.h"
#include "lockstep/models/pickled/pickled_names.h"

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
  PickleMachine(std::string_view bytes, std::size_t begin, const std::string& path) : bytes_(bytes, begin, path) {}

  PickleValue run() {
    for (;;) {
      const unsigned char opcode = bytes_.take_opcode();
      if (opcode == kStop) return pop();
      if (!push_plain(opcode) && !handle_container(opcode) && !handle_memo(opcode) && !handle_object(opcode)) {
        bytes_.refuse(fmt::format("the pickle has the opcode 0x{:02x}", opcode));
      }
    }
  }
  std::size_t end() const { return bytes_.at(); }

 private:
  void push(PickleValue value) { stack_.push_back(std::move(value)); }
  PickleValue pop() {
    bytes_.require(!stack_.empty() && (marks_.empty() || stack_.size() > marks_.back()),
                   "the pickle takes what is not there");
    PickleValue value = std::move(stack_.back());
    stack_.pop_back();
    return value;
  }
  Values pop_to_mark() {
    bytes_.require(!marks_.empty(), "the pickle takes what is not there");
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
    bytes_.require(!outer.is_inside, "the pickle adds to what is already part of something");
    outer.depth = std::max(outer.depth, inner->depth + 1);
    bytes_.require(outer.depth <= kMostDepth, "the pickle is nested deeply");
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
        bytes_.take(1);
        return true;
      case kNone:
        push({});
        return true;
      case kNewTrue:
      case kNewFalse:
        push({opcode == kNewTrue});
        return true;
      case kBinInt:
        push({std::int64_t{bytes_.take_number<std::int32_t>()}});
        return true;
      case kBinInt1:
        push({std::int64_t{bytes_.take_number<std::uint8_t>()}});
        return true;
      case kBinInt2:
        push({std::int64_t{bytes_.take_number<std::uint16_t>()}});
        return true;
      case kLong1:
        push_long();
        return true;
      case kBinFloat:
        bytes_.take(8);
        push({0.0});  // no weight depends on it
        return true;
      case kBinUnicode:
        push({std::string(bytes_.take(bytes_.take_number<std::uint32_t>()))});
        return true;
      default:
        return false;
    }
  }
  void push_long() {
    const std::string_view digits = bytes_.take(bytes_.take_number<std::uint8_t>());
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
    bytes_.require(!stack_.empty(), "the pickle takes what is not there");
    return stack_.back();
  }
  void append(Values items) {
    const Sequence* list = top().as<Sequence>();
    bytes_.require(list != nullptr, "the pickle appends to what is not a list");
    for (PickleValue& item : items) {
      put_inside(**list, item);
      (*list)->items.push_back(std::move(item));
    }
  }
  void set_items(Values items) {
    const Dict* dict = top().as<Dict>();
    bytes_.require(dict != nullptr && items.size() % 2 == 0, "the pickle sets items of what is not a dictionary");
    for (std::size_t i = 0; i < items.size(); i += 2) {
      put_inside(**dict, items[i]);
      put_inside(**dict, items[i + 1]);
      (*dict)->items.emplace_back(std::move(items[i]), std::move(items[i + 1]));
    }
  }

  bool handle_memo(unsigned char opcode) {
    switch (opcode) {
      case kBinPut:
        memo_[bytes_.take_number<std::uint8_t>()] = top();
        return true;
      case kLongBinPut:
        memo_[bytes_.take_number<std::uint32_t>()] = top();
        return true;
      case kBinGet:
        push_memo(bytes_.take_number<std::uint8_t>());
        return true;
      case kLongBinGet:
        push_memo(bytes_.take_number<std::uint32_t>());
        return true;
      default:
        return false;
    }
  }
  void push_memo(std::uint32_t number) {
    const auto found = memo_.find(number);
    bytes_.require(found != memo_.end(), "the pickle takes what is not there");
    push(found->second);
  }

  bool handle_object(unsigned char opcode) {
    switch (opcode) {
      case kGlobal:
        push_global();
        return true;
      case kBinPersId:
        push({storage_of_id(pop(), bytes_)});
        return true;
      case kReduce: {
        const PickleValue arguments = pop();
        push(result_of_call(pop(), arguments, bytes_));
        return true;
      }
      case kBuild:  // attributes of an OrderedDict, as state_dict's "_metadata"
        pop();
        bytes_.require(top().as<Dict>() != nullptr, "the pickle sets attributes");
        return true;
      default:
        return false;
    }
  }
  void push_global() {
    const std::string module = bytes_.take_line();
    const std::string name = bytes_.take_line();
    push({known_global(module, name, bytes_)});
  }

  PickleBytes bytes_;
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
