#include "lockstep/data/nsl_kdd.h"

#include <array>

namespace lockstep {
namespace {

constexpr std::size_t kFieldsWithoutDifficulty = 42;

const std::vector<std::string> kProtocols{"icmp", "tcp", "udp"};
const std::vector<std::string> kFlags{"OTH", "REJ", "RSTO", "RSTOS0", "RSTR", "S0", "S1", "S2", "S3", "SF", "SH"};
const std::vector<std::string> kServices{
    "IRC",     "X11",       "Z39_50",   "aol",        "auth",     "bgp",         "courier",    "csnet_ns",
    "ctf",     "daytime",   "discard",  "domain",     "domain_u", "echo",        "eco_i",      "ecr_i",
    "efs",     "exec",      "finger",   "ftp",        "ftp_data", "gopher",      "harvest",    "hostnames",
    "http",    "http_2784", "http_443", "http_8001",  "imap4",    "iso_tsap",    "klogin",     "kshell",
    "ldap",    "link",      "login",    "mtp",        "name",     "netbios_dgm", "netbios_ns", "netbios_ssn",
    "netstat", "nnsp",      "nntp",     "ntp_u",      "other",    "pm_dump",     "pop_2",      "pop_3",
    "printer", "private",   "red_i",    "remote_job", "rje",      "shell",       "smtp",       "sql_net",
    "ssh",     "sunrpc",    "supdup",   "systat",     "telnet",   "tftp_u",      "tim_i",      "time",
    "urh_i",   "urp_i",     "uucp",     "uucp_path",  "vmnet",    "whois"};

constexpr std::array<const char*, 37> kNumbersAfterFlag{"src_bytes",
                                                        "dst_bytes",
                                                        "land",
                                                        "wrong_fragment",
                                                        "urgent",
                                                        "hot",
                                                        "num_failed_logins",
                                                        "logged_in",
                                                        "num_compromised",
                                                        "root_shell",
                                                        "su_attempted",
                                                        "num_root",
                                                        "num_file_creations",
                                                        "num_shells",
                                                        "num_access_files",
                                                        "num_outbound_cmds",
                                                        "is_host_login",
                                                        "is_guest_login",
                                                        "count",
                                                        "srv_count",
                                                        "serror_rate",
                                                        "srv_serror_rate",
                                                        "rerror_rate",
                                                        "srv_rerror_rate",
                                                        "same_srv_rate",
                                                        "diff_srv_rate",
                                                        "srv_diff_host_rate",
                                                        "dst_host_count",
                                                        "dst_host_srv_count",
                                                        "dst_host_same_srv_rate",
                                                        "dst_host_diff_srv_rate",
                                                        "dst_host_same_src_port_rate",
                                                        "dst_host_srv_diff_host_rate",
                                                        "dst_host_serror_rate",
                                                        "dst_host_srv_serror_rate",
                                                        "dst_host_rerror_rate",
                                                        "dst_host_srv_rerror_rate"};

CsvSchema schema_of_rows(const std::string& path) {
  return nsl_kdd_schema(count_csv_fields(path) > kFieldsWithoutDifficulty);
}

}  // namespace

CsvSchema nsl_kdd_schema(bool has_difficulty) {
  constexpr auto kScaling = CsvColumn::Scaling::LogMinMax;
  CsvSchema schema;
  schema.header = false;
  schema.columns = {number_column("duration", kScaling), category_column("protocol_type", kProtocols),
                    category_column("service", kServices), category_column("flag", kFlags)};
  for (const char* name : kNumbersAfterFlag) schema.columns.push_back(number_column(name, kScaling));
  schema.columns.push_back(label_column("label", {{"normal", 0}}, 1));
  if (has_difficulty) schema.columns.push_back(ignored_column("difficulty"));
  return schema;
}

CsvData read_nsl_kdd(const std::string& path) { return read_csv(path, schema_of_rows(path)); }

std::shared_ptr<TensorDataset> read_nsl_kdd(const std::string& path, const CsvEncoding& encoding) {
  return read_csv(path, schema_of_rows(path), encoding);
}

}  // namespace lockstep
