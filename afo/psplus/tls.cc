#include "afo/psplus/tls.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace afo::psplus {

// OpenSSL's view of a session's buffers.
struct TlsMemory {
  static int Read(BIO* bio, char* to, int size) {
    BIO_clear_retry_flags(bio);
    TlsInput* input = static_cast<TlsSession*>(BIO_get_data(bio))->input_;
    const std::size_t taken = std::min(input->size, static_cast<std::size_t>(size));
    if (taken == 0) {
      BIO_set_retry_read(bio);
      return -1;
    }
    std::memcpy(to, input->data, taken);
    input->data += taken;
    input->size -= taken;
    return static_cast<int>(taken);
  }

  static int Write(BIO* bio, const char* data, int size) {
    BIO_clear_retry_flags(bio);
    TlsOutput* output = static_cast<TlsSession*>(BIO_get_data(bio))->output_;
    const std::size_t taken = std::min(output->room(), static_cast<std::size_t>(size));
    if (taken == 0) {
      BIO_set_retry_write(bio);
      return -1;
    }
    std::memcpy(output->block + output->end, data, taken);
    output->end += taken;
    return static_cast<int>(taken);
  }

  static long Control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

  static int Create(BIO* bio) {
    BIO_set_init(bio, 1);
    return 1;
  }

  // Never freed: sessions may be there until the process ends.
  static BIO_METHOD* Method() {
    static BIO_METHOD* const method = [] {
      BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "afo");
      BIO_meth_set_read(made, Read);
      BIO_meth_set_write(made, Write);
      BIO_meth_set_ctrl(made, Control);
      BIO_meth_set_create(made, Create);
      return made;
    }();
    return method;
  }
};

namespace {

constexpr const char* kName = "job.afo";

template <auto Free>
struct Freed {
  template <typename T>
  void operator()(T* what) const {
    Free(what);
  }
};
using BioPtr = std::unique_ptr<BIO, Freed<BIO_free_all>>;
using CertificatePtr = std::unique_ptr<X509, Freed<X509_free>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;

BioPtr Text(const std::string& text) { return BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size()))); }

CertificatePtr Certificate(const std::string& text) {
  return CertificatePtr(PEM_read_bio_X509(Text(text).get(), nullptr, nullptr, nullptr));
}

void SetRules(SSL_CTX* context) {
  SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
  SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION);
  // The shorter key is the quicker one, and as good as the certificates.
  SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256");
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_num_tickets(context, 0);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  // Connections that rest keep no buffers.
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  SSL_CTX_set_verify_depth(context, 1);
}

// What is wrong with them, or nothing.
std::string Use(SSL_CTX* context, const TlsTexts& texts) {
  const CertificatePtr authority = Certificate(texts.authority), own = Certificate(texts.certificate);
  if (!authority) return "the authority is no certificate in PEM";
  if (!own) return "the certificate is none in PEM";
  const KeyPtr key(PEM_read_bio_PrivateKey(Text(texts.key).get(), nullptr, nullptr, nullptr));
  if (!key) return "the key is none in PEM";
  if (X509_STORE_add_cert(SSL_CTX_get_cert_store(context), authority.get()) != 1) return "the authority cannot be used";
  if (SSL_CTX_use_certificate(context, own.get()) != 1) return "the certificate cannot be used";
  if (SSL_CTX_use_PrivateKey(context, key.get()) != 1) return "the key is none of the certificate";
  return {};
}

}  // namespace

TlsContext::Made TlsContext::Of(TlsEnd end, const TlsTexts& texts) {
  // No configuration: it is meant for the system's OpenSSL, and one module in it that cannot be loaded leaves this one
  // without any algorithm. No cleaning up at exit, when loops may still run.
  OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, nullptr);
  SSL_CTX* made = SSL_CTX_new(end == TlsEnd::kServer ? TLS_server_method() : TLS_client_method());
  if (made == nullptr) return {nullptr, "OpenSSL makes no context"};
  const std::shared_ptr<TlsContext> context(new TlsContext(made, end));
  SetRules(made);
  std::string wrong = Use(made, texts);
  ERR_clear_error();
  if (!wrong.empty()) return {nullptr, std::move(wrong)};
  return {context, {}};
}

TlsContext::~TlsContext() { SSL_CTX_free(context_); }

TlsSession::TlsSession(std::shared_ptr<TlsContext> context, TlsInput* input, TlsOutput* output,
                       std::uint64_t records_a_key)
    : context_(std::move(context)), input_(input), output_(output), records_a_key_(records_a_key) {
  ssl_ = SSL_new(context_->context_);
  BIO* bio = BIO_new(TlsMemory::Method());
  if (ssl_ == nullptr || bio == nullptr) {
    BIO_free(bio);
    return;
  }
  BIO_set_data(bio, this);
  SSL_set_bio(ssl_, bio, bio);
  if (context_->end_ == TlsEnd::kServer) {
    SSL_set_accept_state(ssl_);
  } else {
    SSL_set_connect_state(ssl_);
    SSL_set1_host(ssl_, kName);
  }
}

TlsSession::~TlsSession() { SSL_free(ssl_); }

TlsSession::State TlsSession::Handshake() {
  if (ssl_ == nullptr || SSL_get_rbio(ssl_) == nullptr) {
    why_ = "there is no memory";
    return State::kBroken;
  }
  ERR_clear_error();
  const int returned = SSL_do_handshake(ssl_);
  return returned == 1 ? State::kDone : StateOf(returned);
}

TlsSession::Step TlsSession::Read(char* to, std::size_t size) {
  ERR_clear_error();
  std::size_t bytes = 0;
  const int returned = SSL_read_ex(ssl_, to, size, &bytes);
  if (returned == 1) return {State::kDone, bytes};
  return {StateOf(returned), 0};
}

TlsSession::State TlsSession::Write(const char* data, std::size_t size) {
  ERR_clear_error();
  // Sent with the record.
  if (++records_ % records_a_key_ == 0) SSL_key_update(ssl_, SSL_KEY_UPDATE_NOT_REQUESTED);
  std::size_t bytes = 0;
  const int returned = SSL_write_ex(ssl_, data, size, &bytes);
  if (returned == 1 && bytes == size) return State::kDone;
  StateOf(returned);
  return State::kBroken;
}

std::string TlsSession::why() const { return why_; }

TlsSession::State TlsSession::StateOf(int returned) {
  switch (SSL_get_error(ssl_, returned)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
      return State::kWants;
    case SSL_ERROR_ZERO_RETURN:
      return State::kEnded;
    default:
      break;
  }
  const char* reason = ERR_reason_error_string(ERR_peek_last_error());
  const long verified = SSL_get_verify_result(ssl_);
  if (verified != X509_V_OK) {
    why_ = std::string("the peer's certificate is refused: ") + X509_verify_cert_error_string(verified);
  } else {
    why_ = reason == nullptr ? "it is no TLS" : reason;
  }
  ERR_clear_error();
  return State::kBroken;
}

}  // namespace afo::psplus
