package access

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
)

// TLSFiles are PEM files.
type TLSFiles struct {
	Certificate, Key string
	// "": clients need no certificate.
	ClientCA string
}

// TLS serves the certificate that the files have now: one that is renewed is used by the next connection. The clients'
// authority is read once, for whoever changes it means to close connections that are open.
func TLS(files TLSFiles, log *slog.Logger) (*tls.Config, error) {
	if files.Certificate == "" || files.Key == "" {
		return nil, fmt.Errorf("tls: `certificate` and `key` are both needed, as PEM files")
	}
	certificate, err := watchCertificate(files, log)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{
		// 1.3 is taken wherever the client has it.
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return certificate.get(), nil },
	}
	if files.ClientCA == "" {
		return config, nil
	}
	text, err := os.ReadFile(files.ClientCA)
	if err != nil {
		return nil, fmt.Errorf("tls: client_ca: %w", err)
	}
	config.ClientCAs = x509.NewCertPool()
	if !config.ClientCAs.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("tls: client_ca: %s has no certificate in PEM", files.ClientCA)
	}
	config.ClientAuth = tls.RequireAndVerifyClientCert
	return config, nil
}

func watchCertificate(files TLSFiles, log *slog.Logger) (*watched[*tls.Certificate], error) {
	return watch("the TLS certificate "+files.Certificate, []string{files.Certificate, files.Key}, func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(files.Certificate, files.Key)
		if err != nil {
			return nil, fmt.Errorf("tls: certificate %s with key %s: %w", files.Certificate, files.Key, err)
		}
		return &pair, nil
	}, log)
}

// CertificateName is the common name of a client's certificate; "" where it has none.
func CertificateName(state *tls.ConnectionState) string {
	if state == nil || len(state.VerifiedChains) == 0 {
		return ""
	}
	return state.PeerCertificates[0].Subject.CommonName
}
