#include "lockstep/data/tables/parquet/parquet_leaf_type.h"

#include <fmt/format.h>

#include "lockstep/data/tables/table_fault.h"

namespace lockstep {
namespace {

// The old words for types, and the newer ones: a file has one of them, or both.
struct Annotation {
  int converted;
  int logical;
};
constexpr Annotation kUtf8{0, 1}, kEnum{4, 4}, kDecimal{5, 5}, kDate{6, 6}, kJson{19, 12}, kUuid{-2, 14},
    kHalfFloat{-2, 15}, kNull{-2, 11};
constexpr int kTimeMillis = 7, kTimeMicros = 8, kTimestampMillis = 9, kTimestampMicros = 10;
constexpr int kFirstWhole = 11, kFirstSigned = 15, kLastWhole = 18;
constexpr int kLogicalTime = 7, kLogicalTimestamp = 8, kLogicalWhole = 10;

bool has(const ParquetNode& node, const Annotation& annotation) {
  return node.logical_type == annotation.logical || node.converted_type == annotation.converted;
}

bool is_converted_whole(const ParquetNode& node) {
  return node.converted_type >= kFirstWhole && node.converted_type <= kLastWhole;
}

const char* unit_of(const ParquetNode& node) {
  if (node.unit == 1 || node.converted_type == kTimeMillis || node.converted_type == kTimestampMillis) return "ms";
  return node.unit == 3 ? "ns" : "us";
}

// Empty if the numbers stand for nothing else.
std::string type_by_annotation(const ParquetNode& node) {
  if (has(node, kNull)) return "null";
  if (has(node, kDecimal)) return fmt::format("decimal({}, {})", node.precision, node.scale);
  if (has(node, kDate)) return "date32[day]";
  if (node.logical_type == kLogicalTime || node.converted_type == kTimeMillis || node.converted_type == kTimeMicros) {
    return fmt::format("time[{}]", unit_of(node));
  }
  if (node.logical_type == kLogicalTimestamp || node.converted_type == kTimestampMillis ||
      node.converted_type == kTimestampMicros) {
    return fmt::format("timestamp[{}{}]", unit_of(node), node.is_utc ? ", tz=UTC" : "");
  }
  return "";
}

}  // namespace

int bits_of_whole(const ParquetNode& node) {
  const int stored = node.physical_type == static_cast<int>(ParquetType::Int32) ? 32 : 64;
  std::int64_t bits = stored;
  if (node.logical_type == kLogicalWhole) {
    bits = node.bits;
  } else if (is_converted_whole(node)) {
    bits = 8LL << (node.converted_type - kFirstWhole) % 4;
  }
  if (bits != 8 && bits != 16 && bits != 32 && bits != 64) throw TableFault(fmt::format("a number has {} bits", bits));
  if (bits > stored) throw TableFault(fmt::format("numbers of {} bits are stored with {}", bits, stored));
  return static_cast<int>(bits);
}

bool is_signed_whole(const ParquetNode& node) {
  if (node.logical_type == kLogicalWhole) return node.is_signed;
  return !is_converted_whole(node) || node.converted_type >= kFirstSigned;
}

TableField parquet_leaf_type(const ParquetNode& node) {
  const std::string other = type_by_annotation(node);
  if (!other.empty()) return {node.name, other, ValueKind::Other};
  switch (static_cast<ParquetType>(node.physical_type)) {
    case ParquetType::Boolean:
      return {node.name, "bool", ValueKind::Boolean};
    case ParquetType::Int32:
    case ParquetType::Int64:
      return {node.name, fmt::format("{}int{}", is_signed_whole(node) ? "" : "u", bits_of_whole(node)),
              ValueKind::Whole};
    case ParquetType::Int96:
      return {node.name, "timestamp[ns]", ValueKind::Other};
    case ParquetType::Float:
      return {node.name, "float", ValueKind::Fraction};
    case ParquetType::Double:
      return {node.name, "double", ValueKind::Fraction};
    case ParquetType::ByteArray:
      if (has(node, kUtf8) || has(node, kEnum) || has(node, kJson)) return {node.name, "string", ValueKind::Text};
      return {node.name, "binary", ValueKind::Other};
    case ParquetType::FixedByteArray:
      if (has(node, kUuid)) return {node.name, "uuid", ValueKind::Other};
      if (has(node, kHalfFloat)) return {node.name, "halffloat", ValueKind::Other};
      return {node.name, fmt::format("fixed_size_binary[{}]", node.type_length), ValueKind::Other};
  }
  throw TableFault(fmt::format("the column \"{}\" has the unknown type {}", node.name, node.physical_type));
}

}  // namespace lockstep
