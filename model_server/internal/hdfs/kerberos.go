package hdfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/jcmturner/gokrb5/v8/client"
	krbconfig "github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/credentials"
	"github.com/jcmturner/gokrb5/v8/keytab"
)

// Keytab is a principal and the file with its key.
type Keytab struct{ Principal, File string }

// login is who this process is to Kerberos: by the keytab, or by the tickets of kinit. A keytab asks the KDC.
func login(by *Keytab) (made *client.Client, err error) {
	defer func() {
		if wrong := recover(); wrong != nil { // its readers trust in files that are whole
			err = fmt.Errorf("the keytab or the tickets of Kerberos are damaged: %v", wrong)
		}
	}()
	conf, err := realms()
	if err != nil {
		return nil, err
	}
	// Active Directory does not take the pre-authentication that this client would begin with.
	settings := client.DisablePAFXFAST(true)
	if by == nil {
		return byTickets(conf, settings)
	}
	keys, err := keytab.Load(by.File)
	if err != nil {
		return nil, fmt.Errorf("kerberos.keytab %s cannot be read: %w", by.File, err)
	}
	name, realm, _ := strings.Cut(by.Principal, "@")
	if realm == "" {
		realm = conf.LibDefaults.DefaultRealm
	}
	made = client.NewWithKeytab(name, realm, keys, conf, settings)
	if err := made.Login(); err != nil {
		return nil, fmt.Errorf("kerberos.principal %s gets no ticket by %s: %w", by.Principal, by.File, err)
	}
	return made, nil
}

func realms() (*krbconfig.Config, error) {
	file, _, _ := strings.Cut(os.Getenv("KRB5_CONFIG"), ":")
	if file == "" {
		file = "/etc/krb5.conf"
	}
	conf, err := krbconfig.Load(file)
	var unsupported krbconfig.UnsupportedDirective
	if err != nil && !errors.As(err, &unsupported) {
		return nil, fmt.Errorf("the cluster asks for Kerberos, and its configuration %s cannot be read: %w; set KRB5_CONFIG", file, err)
	}
	return conf, nil
}

// byTickets takes those that kinit, or another program, has written, and keeps fresh.
func byTickets(conf *krbconfig.Config, settings func(*client.Settings)) (*client.Client, error) {
	named := os.Getenv("KRB5CCNAME")
	if named == "" {
		named = fmt.Sprintf("/tmp/krb5cc_%d", os.Getuid())
	}
	kind, file, typed := strings.Cut(named, ":")
	if !typed {
		file = named
	} else if kind != "FILE" {
		return nil, fmt.Errorf("KRB5CCNAME is %s; tickets are read from files here: FILE:PATH, or name kerberos.principal and kerberos.keytab", named)
	}
	cache, err := credentials.LoadCCache(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the cluster asks for Kerberos, and there are no tickets at %s: run `kinit`, or name kerberos.principal and"+
			" kerberos.keytab", file)
	}
	if err != nil {
		return nil, fmt.Errorf("the tickets of KRB5CCNAME, %s, cannot be read: %w", file, err)
	}
	if !anyValid(cache) {
		return nil, fmt.Errorf("the tickets in %s have expired; run `kinit`, or name kerberos.principal and kerberos.keytab", file)
	}
	made, err := client.NewFromCCache(cache, conf, settings)
	if err != nil {
		return nil, fmt.Errorf("the tickets in %s cannot be used: %w", file, err)
	}
	return made, nil
}

func anyValid(of *credentials.CCache) bool {
	for _, each := range of.GetEntries() {
		if each.EndTime.After(time.Now()) {
			return true
		}
	}
	return false
}
