package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"os"

	"github.com/spf13/cobra"
)

// newSigningKeyCommand prints a fresh private key with which the API server signs service account tokens.
func newSigningKeyCommand() *cobra.Command {
	return &cobra.Command{
		Use:          "new-signing-key",
		Short:        "print a new private key for service account tokens, as PEM",
		SilenceUsage: true,
		RunE: func(*cobra.Command, []string) error {
			key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
			if err != nil {
				return err
			}
			der, err := x509.MarshalECPrivateKey(key)
			if err != nil {
				return err
			}
			return pem.Encode(os.Stdout, &pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
		},
	}
}
